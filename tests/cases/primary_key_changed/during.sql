-- @writer
-- @allow 1062
UPDATE t SET v = v + 1 WHERE id BETWEEN @r MOD 900 AND @r MOD 900 + 9;
UPDATE t SET code = code + 1 WHERE id = 1 + @s MOD 900;
UPDATE t SET id = id + 1000000 WHERE id = 1 + @r MOD 900;
INSERT INTO t (code, v) VALUES (@n, 1);
DELETE FROM t WHERE id = 1 + @s MOD 900;
