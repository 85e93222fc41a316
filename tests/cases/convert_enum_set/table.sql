CREATE TABLE t (id INT NOT NULL PRIMARY KEY, a ENUM('x','y','z') NOT NULL, b VARCHAR(10), c SET('p','q','r'), d ENUM('1','2','3'), e ENUM('red','green'), f SET('a','b'), g VARCHAR(20));
INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 700)
  SELECT i, 1 + i MOD 3, ELT(1 + i MOD 3, 'on', 'off', NULL), i MOD 8, 1 + i MOD 3, 1 + i MOD 2, i MOD 4, ELT(1 + i MOD 4, '', 'm', 'n,m', NULL) FROM n;
