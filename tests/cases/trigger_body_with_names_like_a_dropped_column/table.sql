CREATE TABLE t (id INT NOT NULL PRIMARY KEY, amount INT NOT NULL, amount2 INT NOT NULL, note VARCHAR(40) NOT NULL DEFAULT '');
CREATE TABLE audit (t_id INT NOT NULL, amount INT NOT NULL);
INSERT INTO t (id, amount, amount2) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600) SELECT i, i, i FROM n;
CREATE TRIGGER tr AFTER UPDATE ON t FOR EACH ROW
BEGIN
  -- NEW.amount is not read here.
  DECLARE amount INT DEFAULT 5; /* OLD.amount neither */
  SET amount = amount + NEW.amount2;
  INSERT INTO audit (t_id, amount) VALUES (NEW.id, amount);
END;
CREATE TRIGGER tr2 BEFORE INSERT ON t FOR EACH ROW SET NEW.note = 'NEW.amount; OLD.amount';
