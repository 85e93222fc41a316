-- @writer
-- @allow 1062 1213
UPDATE t SET c = c + 1 WHERE b BETWEEN @r MOD 900 AND @r MOD 900 + 9;
UPDATE t SET a = a + 1, c = c - 1 WHERE b = 1 + @s MOD 900;
INSERT INTO t (a, b, c, v) VALUES (@r MOD 50, @n, @r MOD 3, 1);
INSERT INTO t (a, b, c, v) VALUES (@i MOD 50, 1 + @s MOD 900, @r MOD 3, 1);
DELETE FROM t WHERE b = 1 + @s MOD 900;
