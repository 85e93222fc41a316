-- @writer
-- @allow 1062
UPDATE t SET v = v + 1000 WHERE a BETWEEN @r MOD 300 AND @r MOD 300 + 3;
UPDATE t SET a = a + 1000, b = 'q' WHERE a = @s MOD 300 AND b = 'X';
DELETE FROM t WHERE a = @s MOD 300 AND b = 'Z';
INSERT INTO t (a, b, v) VALUES (-@n, 'neg', 1), (@n, 'pos', 2);
