-- @writer
-- @allow 1213
UPDATE t SET i = i + 1 WHERE id BETWEEN @r MOD 900 AND @r MOD 900 + 9;
UPDATE t SET v = v + 1 WHERE id BETWEEN @s MOD 900 AND @s MOD 900 + 9;
INSERT INTO t (id, i, v) VALUES (@n, @i MOD 4, 1);
DELETE FROM t WHERE id = 1 + @s MOD 900;
-- @writer
-- @allow 1213
BEGIN;
UPDATE t SET id = -1 - @n WHERE id = 1 + @r MOD 900;
UPDATE t SET id = 1 + @r MOD 900, i = i + 3 WHERE id = 1 + @s MOD 900 AND @r MOD 900 <> @s MOD 900;
COMMIT;
-- @after
UPDATE t SET v = v + 1 WHERE id = 1 + @r MOD 900;
