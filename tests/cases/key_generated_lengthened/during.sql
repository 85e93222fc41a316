-- @writer
-- @allow 1062 1213
UPDATE t SET i = i + 1 WHERE a BETWEEN @r MOD 900 AND @r MOD 900 + 9;
UPDATE t SET a = a + 5000, i = 1 WHERE a = 1 + @s MOD 900;
INSERT INTO t (a, i, v) VALUES (1 + @s MOD 900, 9, 8);
DELETE FROM t WHERE a = 1 + @r MOD 900;
-- @writer
-- @allow 1062 1213
UPDATE t SET i = @i MOD 3 WHERE a > 5000;
UPDATE t SET i = i + 1, v = v + 1 WHERE a BETWEEN @s MOD 900 AND @s MOD 900 + 4;
