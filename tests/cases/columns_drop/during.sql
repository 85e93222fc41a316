-- @writer
UPDATE t SET a = a + 1, d = d + 1 WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 9;
UPDATE t SET a = a + 1 WHERE id BETWEEN @s MOD 800 AND @s MOD 800 + 9;
INSERT INTO t (id, a, b, c) VALUES (@n, 1, 'x', NULL);
DELETE FROM t WHERE id = @s MOD 800;
-- @after
UPDATE t SET d = d + 1, b = 'after' WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 9;
INSERT INTO t (id, b, d) VALUES (@n, 'y', @i);
DELETE FROM t WHERE id = @s MOD 800;
