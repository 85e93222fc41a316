-- @writer
UPDATE t SET a = a + 1, b = CONCAT('b', @i) WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 9;
INSERT INTO t (id, a, b, c) VALUES (@n, 1, 'x', 3);
DELETE FROM t WHERE id = @s MOD 800;
-- @after
UPDATE t SET a = NULL WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 9;
INSERT INTO t (id) VALUES (@n);
