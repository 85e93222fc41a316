-- @writer
-- @allow 1062 1213
UPDATE t SET v = v + 1000 WHERE k BETWEEN @r MOD 900 AND @r MOD 900 + 9;
UPDATE t SET b = CONCAT('B', k MOD 5) WHERE k = 1 + @s MOD 900;
INSERT INTO t (k, b, v) VALUES (@n, 'x', 1);
DELETE FROM t WHERE k = 1 + @r MOD 900;
UPDATE t SET k = -k WHERE k = 1 + @s MOD 900;
