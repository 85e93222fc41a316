-- @writer
-- @allow 1062
UPDATE t SET v = v + 1 WHERE id BETWEEN @r MOD 900 AND @r MOD 900 + 9;
UPDATE t SET region = region + 1 WHERE id BETWEEN @s MOD 900 AND @s MOD 900 + 9;
UPDATE t SET id = id + 1000000 WHERE id = 1 + @r MOD 900;
INSERT INTO t (region, v) VALUES (@i MOD 4, 1);
DELETE FROM t WHERE id = 1 + @s MOD 900;
