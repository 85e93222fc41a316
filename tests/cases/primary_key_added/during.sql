-- @writer
-- @allow 1062
UPDATE t SET v = v + 1 WHERE code BETWEEN @r MOD 800 AND @r MOD 800 + 9;
INSERT INTO t (code, v) VALUES (@n, 1);
DELETE FROM t WHERE code = 1 + @s MOD 800;
-- @after
INSERT INTO t (id, code, v) VALUES (1000000000 + @n, 1000000000 + @n, 1);
