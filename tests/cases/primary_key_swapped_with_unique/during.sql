-- @writer
-- @allow 1062
UPDATE t SET v = v + 1 WHERE a BETWEEN @r MOD 800 AND @r MOD 800 + 9;
UPDATE t SET b = UPPER(b) WHERE a BETWEEN @r MOD 800 AND @r MOD 800 + 9;
UPDATE t SET a = -a WHERE a = 1 + @s MOD 800;
UPDATE t SET b = CONCAT(b, '.') WHERE a = 1 + @r MOD 800 AND LENGTH(b) < 19;
INSERT INTO t (a, b, v) VALUES (@n, @n, 1);
DELETE FROM t WHERE a = 1 + @r MOD 800;
