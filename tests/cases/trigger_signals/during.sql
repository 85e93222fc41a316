-- @writer
-- @allow 30001 1644
UPDATE t SET v = v - 20 WHERE id BETWEEN @r MOD 600 AND @r MOD 600 + 3;
UPDATE t SET v = v + 9 WHERE id = 1 + @s MOD 600;
INSERT INTO t (id, v) VALUES (@n, @n MOD 300);
DELETE FROM t WHERE id = @n;
