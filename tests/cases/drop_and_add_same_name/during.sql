-- @writer
UPDATE t SET a = a + 1, b = b - 1 WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 9;
INSERT INTO t (id, a, b) VALUES (@n, 5, -5);
DELETE FROM t WHERE id = @s MOD 800;
