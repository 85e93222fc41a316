CREATE TABLE t (id INT NOT NULL PRIMARY KEY, a JSON, b TEXT, c VARCHAR(200), d JSON);
INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 700)
  SELECT i, JSON_OBJECT('i', i, 's', 'é😀', 'd', 1.50), CONCAT('{"i": ', i, ', "f": 1.50, "e": 1e3}'), IF(i MOD 4, '[1, 2, "x"]', NULL), JSON_ARRAY(i) FROM n;
