-- @writer
UPDATE t SET n = -n, k0 = k0 + 1, k1 = k1 + 1, s = CONCAT('x', @i) WHERE id = 1 + @r MOD 700;
UPDATE t SET v = JSON_ARRAY(@i / 3e0, 1.50), r = NULL, in_the_way = @i, t = NULL, e = '?' WHERE id = 1 + @s MOD 700;
INSERT INTO t (id, n, k0, k1, d, m0, s, seen) VALUES (@n, @n, 2, 2, 2, 3, 's', @i);
DELETE FROM t WHERE id = 1 + @s MOD 700;
