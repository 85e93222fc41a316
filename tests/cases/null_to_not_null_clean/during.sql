-- @writer
UPDATE t SET a = a + 1, b = CONCAT('b', @i) WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 9;
INSERT INTO t (id, a, b, c, d) VALUES (@n, 1, 'x', NOW(), '{}');
DELETE FROM t WHERE id = @s MOD 800;
