-- @writer
-- @allow 1062
UPDATE t SET a = a + 1, b = CONCAT('b', @i) WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 9;
UPDATE t SET u = -u WHERE id = @s MOD 800;
INSERT INTO t (id, a, b, u) VALUES (@n, 1, 'x', @n);
DELETE FROM t WHERE id = @s MOD 800;
-- @after
UPDATE t SET alpha = NULL, beta = 'after' WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 9;
INSERT INTO t (id, alpha, `Odd ``name`) VALUES (@n, 1, @n);
