-- @writer
-- Every statement counts the columns, so that none of them touches a numbered row before the
-- writer has seen the new definition: the twin's numbers are others.
INSERT INTO t VALUES (@n, 1);
REPLACE INTO t VALUES (1 + @r MOD 800, @i);
INSERT INTO t VALUES (1 + @s MOD 800, 0) ON DUPLICATE KEY UPDATE v = v + 5;
DELETE FROM t WHERE code = 1 + @s MOD 800 AND (code, 1) IN (SELECT * FROM (SELECT code, 1 FROM (TABLE t UNION ALL SELECT 0, 0) AS two) AS q);
-- @after
INSERT INTO t (id, code, v) VALUES (1000000000 + @n, 1000000000 + @n, 1);
