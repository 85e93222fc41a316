-- @writer
-- @allow 1451 1452
INSERT INTO t (id, up, v) VALUES (@n, 1 + @r MOD 600, 0), (-@n, @n, 0);
UPDATE t SET up = 1 + @s MOD 600, v = v + 1 WHERE id = 1 + @r MOD 600;
DELETE FROM t WHERE id = -@n;
DELETE FROM t WHERE id = 301 + @s MOD 300;
