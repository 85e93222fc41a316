-- @writer
-- @allow 1062
UPDATE t SET i = i + 1 WHERE id BETWEEN @r MOD 900 AND @r MOD 900 + 9;
UPDATE t SET i = @s MOD 4, v = v + 1 WHERE id BETWEEN @s MOD 900 AND @s MOD 900 + 4;
INSERT INTO t (id, i, v) VALUES (1 + @r MOD 900, 77, 1) ON DUPLICATE KEY UPDATE i = i + 100;
REPLACE INTO t (id, i, v) VALUES (1 + @s MOD 900, 88, 2);
-- @after
UPDATE t SET i = i + 1 WHERE id BETWEEN @r MOD 900 AND @r MOD 900 + 9;
INSERT INTO t (id, i, v) VALUES (@n, 77, 1);
-- @writer
-- @allow 1062 1213
BEGIN;
UPDATE t SET id = -1 - @n, i = i + 1 WHERE id = 1 + @r MOD 900;
UPDATE t SET id = 1 + @r MOD 900, i = i - 1 WHERE id = 1 + @s MOD 900;
UPDATE t SET id = 1 + @s MOD 900 WHERE id = -1 - @n;
COMMIT;
-- @after
UPDATE t SET v = v + 1 WHERE id = 1 + @r MOD 900;
-- @writer
-- @allow 1213
INSERT INTO t (i, v) VALUES (@i MOD 4, 1);
DELETE FROM t WHERE id = 1 + @s MOD 900;
UPDATE t SET i = i + 1 WHERE id > 900;
