-- @writer
UPDATE t SET v = v + 1 WHERE id = 1 + @r MOD 600;
INSERT INTO t (id, v) VALUES (@n, 0);
-- @writer
UPDATE t SET v = v + 1 WHERE id BETWEEN @s MOD 600 AND @s MOD 600 + 2;
