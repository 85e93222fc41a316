-- @writer
UPDATE t SET a = -2147483648 + @i, b = '-123', c = -0.01, d = -0.125, e = 0.1, f = 0 WHERE id BETWEEN @r MOD 700 AND @r MOD 700 + 9;
UPDATE t SET g = 255, h = 2155, i = 16777215, a = NULL, b = NULL, j = 1 + @i MOD 3 WHERE id BETWEEN @s MOD 700 AND @s MOD 700 + 3;
INSERT INTO t (id, a, b, d, e) VALUES (@n, 7, '8', 0.0000000001e5, 3.4e38);
DELETE FROM t WHERE id = 1 + @s MOD 700;
-- @after
UPDATE t SET a = 'text', b = 5, c = 1e300 WHERE id BETWEEN @r MOD 700 AND @r MOD 700 + 9;
