SET SESSION sql_mode = '';
CREATE TABLE t (
  id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  e ENUM('a', 'b', 'a', 'c') NOT NULL, s SET('x', 'y', 'x'), v INT, KEY e (e)
);
INSERT INTO t (id, e, s, v)
  WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 800)
  SELECT i, i MOD 5, i MOD 8, i FROM n;
