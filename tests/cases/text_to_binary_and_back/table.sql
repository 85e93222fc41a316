CREATE TABLE t (id INT NOT NULL PRIMARY KEY, a VARCHAR(50) CHARACTER SET utf8mb4, b VARBINARY(50), c CHAR(10), d BINARY(6), e VARCHAR(20), f TEXT, g BLOB);
INSERT INTO t
  WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 699)
  SELECT i, ELT(1 + i MOD 4, 'é', 'x ', '', NULL), ELT(1 + i MOD 4, 'é', 'x ', '', NULL), 'c ', IF(i MOD 2, X'6162', NULL), ELT(1 + i MOD 3, 'v  ', '', 'v'), 'text', 'blob' FROM n;
