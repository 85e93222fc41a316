-- @writer
-- @allow 1062
UPDATE t SET v = v + 1 WHERE k BETWEEN @r MOD 255 AND @r MOD 255 + 20;
UPDATE t SET v = v + 1 WHERE k = 255;
DELETE FROM t WHERE k = 1 + @s MOD 255;
INSERT INTO t (k, v) VALUES (1 + @s MOD 255, -1);
