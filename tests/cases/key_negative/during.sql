-- @writer
-- @allow 1062
UPDATE t SET v = v + 1 WHERE id BETWEEN @r MOD 900 - 500 AND @r MOD 900 - 495;
UPDATE t SET id = -id WHERE id = @s MOD 900 - 450;
UPDATE t SET v = v + 1 WHERE id = -2147483648;
INSERT INTO t (v) VALUES (1);
INSERT INTO t (id, v) VALUES (-@n, 2);
DELETE FROM t WHERE id = @s MOD 900 - 500;
