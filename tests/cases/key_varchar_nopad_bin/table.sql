CREATE TABLE t (k VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin NOT NULL PRIMARY KEY, v INT, KEY v (v));
INSERT INTO t
  WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 799)
  SELECT CONCAT(ELT(1 + i MOD 8, 'a', 'a ', 'A', 'a\0', 'é', '￿', '😀', 'a\t'), i DIV 8), i FROM n;
INSERT INTO t VALUES ('', -1), (' ', -2), ('  ', -3);
