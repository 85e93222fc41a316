-- @writer
-- @allow 1062
UPDATE t SET f = @r / 1000, d = @s / 7, g = @r * 1.3, n = @s / 3, b = @i MOD 2 WHERE id BETWEEN @r MOD 700 AND @r MOD 700 + 5;
INSERT INTO t (b, t3, i3, lb, y) VALUES (1, CONCAT('né', @n), @n MOD 1000000, X'00FF', 1999);
DELETE FROM t WHERE id = 1 + @s MOD 700;
