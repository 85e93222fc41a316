CREATE TABLE t (id INT NOT NULL PRIMARY KEY, v INT, s VARCHAR(20), c CHAR(9), x TEXT, KEY s (s)) CHARSET=latin1;
INSERT INTO t (id, v, s, c, x)
  WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 700)
  SELECT i, i, CONCAT('é', i), 'c', 'text' FROM n;
