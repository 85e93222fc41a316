-- @writer
UPDATE t SET a = a + 1, b = CONCAT('B', @i) WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 9;
UPDATE t SET c = CONCAT(c, ' more'), e = NULL WHERE id BETWEEN @s MOD 800 AND @s MOD 800 + 9;
INSERT INTO t (id, a, b, c) VALUES (@n, NULL, 'x', 'new text');
DELETE FROM t WHERE id = 1 + @s MOD 800;
