-- @writer
UPDATE t SET a = a + 1 WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 9;
INSERT INTO t (id, a) VALUES (@n, @i);
DELETE FROM t WHERE id = @s MOD 800;
