-- @writer
UPDATE t SET a = a + 1, d = d + 0.01 WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 9;
UPDATE t SET b = NULL, c = CURDATE() WHERE id = @s MOD 800;
INSERT INTO t (id, a, b, c, d) VALUES (@n, 1, 'x', NULL, -1);
DELETE FROM t WHERE id = @s MOD 800;
