-- @writer
-- @allow 1452
INSERT INTO t (id, up, v) VALUES (@n, 1 + @r MOD 600, 0), (-@n, @n, 0);
UPDATE t SET v = v + 1 WHERE id = 1 + @r MOD 600;
DELETE FROM t WHERE id = @n - 3;
DELETE FROM t WHERE id = 301 + @s MOD 300;
