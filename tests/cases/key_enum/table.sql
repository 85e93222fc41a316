CREATE TABLE t (e ENUM('zulu','alpha','Mike','bravo','é','😀','😁','') CHARACTER SET utf8mb4 NOT NULL, n INT NOT NULL, v INT, PRIMARY KEY (e, n));
INSERT INTO t
  WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 899)
  SELECT 1 + i MOD 8, i DIV 8, i FROM n;
