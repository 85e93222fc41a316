CREATE TABLE t (id INT NOT NULL PRIMARY KEY, n INT NOT NULL, k0 INT NOT NULL, k1 INT NOT NULL, d INT NOT NULL, m0 INT NOT NULL,
  v JSON, s VARCHAR(20) NOT NULL, r JSON, o INT, t INT, in_the_way INT, spirit_py_probe INT, seen INT, e ENUM('a', '?'), record INT);
INSERT INTO t WITH RECURSIVE i (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM i WHERE i < 700)
  SELECT i, i, 2, i MOD 7, 2, 3, JSON_ARRAY(i, i / 7e0), CONCAT('s', i), JSON_OBJECT('v', 1.50, 'n', i), i, i, i, i, i, IF(i MOD 2, 'a', '?'), i FROM i;
