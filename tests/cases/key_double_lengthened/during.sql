-- @writer
-- @allow 1062
UPDATE t SET i = i + 1 WHERE v BETWEEN @r MOD 900 AND @r MOD 900 + 9;
UPDATE t SET i = i + 2 WHERE v BETWEEN @r MOD 900 AND @r MOD 900 + 9;
UPDATE t SET d = -d, i = i + 1 WHERE v = 1 + @s MOD 900;
DELETE FROM t WHERE v = 1 + @r MOD 900;
INSERT INTO t (d, i, v) VALUES (@n, @i, 1 + @r MOD 900);
