-- @writer
UPDATE t SET b = 1 - b, v = v + 1 WHERE id = @r MOD 800;
INSERT INTO t (id, a, b) VALUES (@n, @n, 1);
DELETE FROM t WHERE id = @s MOD 800;
-- @after
UPDATE t SET v = v + 1 WHERE id = @r MOD 800;
-- @writer
-- @allow 1062
BEGIN;
UPDATE t SET a = 20000000 + @n WHERE a = 1 + @r MOD 800;
UPDATE t SET a = 1 + @r MOD 800 WHERE a = @s MOD 800 AND a <> 1 + @r MOD 800;
COMMIT;
-- @after
UPDATE t SET v = -1 WHERE id BETWEEN @s MOD 800 AND @s MOD 800 + 9;
INSERT INTO t (id, a, v) VALUES (@n, @n, 1);
