-- @writer
UPDATE t SET v = v + 1 WHERE id BETWEEN @r MOD 700 AND @r MOD 700 + 9;
INSERT INTO t (id, v) VALUES (@n, 1);
DELETE FROM t WHERE id = 1 + @s MOD 700;
-- @writer
-- @allow 3819
UPDATE t SET v = -5 WHERE id = 1 + @s MOD 700;
