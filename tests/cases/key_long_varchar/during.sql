-- @writer
-- @allow 1062
UPDATE t SET v = v + 0, k = CONCAT(k, '!') WHERE v BETWEEN @r MOD 500 AND @r MOD 500 + 4 AND CHAR_LENGTH(k) < 699;
INSERT INTO t (k, n, v) VALUES (REPEAT('Z', 700), @n, 1);
DELETE FROM t WHERE v = @s MOD 500;
