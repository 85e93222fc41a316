-- @writer
-- @session SET sql_mode = ''
UPDATE t SET a = @r MOD 10, b = @s MOD 20, s = @i WHERE id BETWEEN @r MOD 700 AND @r MOD 700 + 5;
INSERT INTO t (id, a, b, s) VALUES (1000 + @n, 1, 2, 'z');
DELETE FROM t WHERE id = 1 + @s MOD 700;
