-- @writer
-- @allow 1451 1452
UPDATE t SET v = v + 1 WHERE id = 1 + @r MOD 600;
INSERT INTO t (id, code, v) VALUES (@n, @n, 0), (-@n, -@n, 0);
INSERT INTO child VALUES (@n, NULL, @n, -@n, @n);
UPDATE t SET code = code - 500000 WHERE id = -@n;
DELETE FROM t WHERE id = @n;
DELETE FROM t WHERE id = 301 + @s MOD 300;
