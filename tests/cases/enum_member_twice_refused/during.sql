-- @writer
-- @session SET sql_mode = ''
UPDATE t SET e = @i MOD 5, s = @i MOD 8, v = v + 1 WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 5;
INSERT INTO t (e, s, v) VALUES (@i MOD 5, @s MOD 8, @n);
DELETE FROM t WHERE id = 1 + @s MOD 800;
