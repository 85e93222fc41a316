-- @writer
-- @allow 1213
UPDATE t SET i = i + 1 WHERE id BETWEEN @r MOD 900 AND @r MOD 900 + 9;
INSERT INTO t (id, i, u, v) VALUES (@n, 1, @n, 5);
DELETE FROM t WHERE id = 1 + @s MOD 900;
-- @writer
-- @allow 1062 1213
BEGIN;
UPDATE t SET u = -1 - @n WHERE u = 1 + @r MOD 900;
UPDATE t SET u = 1 + @r MOD 900, i = i + 1 WHERE u = 1 + @s MOD 900 AND @r MOD 900 <> @s MOD 900;
UPDATE t SET u = 1 + @s MOD 900 WHERE u = -1 - @n AND @r MOD 900 <> @s MOD 900;
COMMIT;
-- @after
UPDATE t SET i = i + 1 WHERE id = 1 + @r MOD 900;
