CREATE TABLE t (id INT NOT NULL PRIMARY KEY, v INT NOT NULL);
CREATE TABLE step (n INT NOT NULL PRIMARY KEY);
CREATE TABLE totals (kind TINYINT NOT NULL PRIMARY KEY, rows_ BIGINT NOT NULL, sum_ BIGINT NOT NULL);
CREATE TABLE {other}.totals (kind TINYINT NOT NULL PRIMARY KEY, rows_ BIGINT NOT NULL);
INSERT INTO step VALUES (3);
INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600) SELECT i, 1 FROM n;
INSERT INTO totals SELECT 0, COUNT(*), SUM(v) FROM t;
INSERT INTO {other}.totals SELECT 0, COUNT(*) FROM t;
CREATE TRIGGER added AFTER INSERT ON t FOR EACH ROW
BEGIN
  UPDATE totals SET rows_ = rows_ + 1, sum_ = sum_ + NEW.v WHERE kind = 0;
  UPDATE {other}.totals SET rows_ = rows_ + 1 WHERE kind = 0;
END;
CREATE TRIGGER changed BEFORE UPDATE ON t FOR EACH ROW
BEGIN
  SET NEW.v = NEW.v + (SELECT MAX(n) FROM step);
  UPDATE `{schema}`.`totals` SET sum_ = sum_ - OLD.v + NEW.v WHERE kind = 0;
END;
CREATE TRIGGER removed AFTER DELETE ON t FOR EACH ROW
BEGIN
  UPDATE totals SET rows_ = rows_ - 1, sum_ = sum_ - OLD.v WHERE kind = 0;
  UPDATE {other}.totals SET rows_ = rows_ - 1 WHERE kind = 0;
END;
