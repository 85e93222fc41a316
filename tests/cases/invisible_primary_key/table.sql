SET SESSION sql_generate_invisible_primary_key = ON;
CREATE TABLE t (v INT, w VARCHAR(10));
INSERT INTO t (v, w) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 800) SELECT i, i FROM n;
