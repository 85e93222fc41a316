-- @writer
UPDATE t SET a = 1 + @i, c = 1 WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 9 AND c <> 0;
UPDATE t SET b = -1 - @i, c = 2 WHERE id BETWEEN @s MOD 800 AND @s MOD 800 + 9 AND c <> 0;
INSERT INTO t (id, a, b) VALUES (@n, 5, -5);
DELETE FROM t WHERE id = @s MOD 800;
