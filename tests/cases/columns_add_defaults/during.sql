-- @writer
UPDATE t SET a = a + 1 WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 9;
INSERT INTO t (id, a) VALUES (@n, @i);
DELETE FROM t WHERE id = @s MOD 800;
-- @after
UPDATE t SET a = a + 1, n10 = 'seen', n9 = -1 WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 9;
INSERT INTO t (id, a, n1, n2, n3) VALUES (@n, @i, 1, 'x', 'second');
