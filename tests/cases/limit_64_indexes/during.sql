-- @writer
UPDATE t SET v = v + 1, c3 = @r, c10 = @s, c59 = @i WHERE id BETWEEN @r MOD 400 AND @r MOD 400 + 5;
INSERT INTO t (id, v) VALUES (1000 + @n, @r);
DELETE FROM t WHERE id = 1 + @s MOD 400;
