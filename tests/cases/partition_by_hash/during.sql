-- @writer
-- @allow 1062
UPDATE t SET v = v + 1 WHERE id BETWEEN @r MOD 900 AND @r MOD 900 + 9;
UPDATE t SET id = id + 1000001 WHERE id = 1 + @s MOD 900;
INSERT INTO t (v) VALUES (1);
DELETE FROM t WHERE id = 1 + @r MOD 900;
