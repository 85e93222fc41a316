CREATE TABLE t (id INT NOT NULL PRIMARY KEY, first VARCHAR(20), last VARCHAR(20), full_name VARCHAR(50) AS (CONCAT_WS(' ', first, last)) STORED, KEY full_name (full_name));
INSERT INTO t (id, first, last) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 800) SELECT i, CONCAT('f', i), IF(i MOD 3, CONCAT('l', i), NULL) FROM n;
