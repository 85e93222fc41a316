-- @writer
-- @allow 1062
UPDATE t SET v = v + 1 WHERE e = 1 + @i MOD 8 AND n BETWEEN @r MOD 112 AND @r MOD 112 + 3;
UPDATE t SET e = IF(e = 'zulu', 6, 1) WHERE e IN ('zulu', '😀') AND n = @s MOD 112;
UPDATE t SET e = 7 WHERE e = 8 AND n = @s MOD 112;
DELETE FROM t WHERE e = 1 + @s MOD 8 AND n = @r MOD 112;
INSERT INTO t (e, n, v) VALUES (1 + @i MOD 8, @n, -1);
