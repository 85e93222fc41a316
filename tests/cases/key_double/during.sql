-- @writer
-- @allow 1062
UPDATE t SET v = v + 1 WHERE v BETWEEN @r MOD 800 AND @r MOD 800 + 5;
UPDATE t SET d = d * 1.1, f = f / 3 WHERE v = @s MOD 800;
UPDATE t SET d = IF(d = 0, 1e-300, 0), f = -f WHERE d IN (0, 1e-300);
DELETE FROM t WHERE v = @s MOD 800 + 2;
INSERT INTO t (d, f, v) VALUES (RAND(), RAND(), 1), (@n / 3e0, -1e38, 2);
