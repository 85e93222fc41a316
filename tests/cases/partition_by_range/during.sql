-- @writer
UPDATE t SET v = v + 1 WHERE id BETWEEN @r MOD 900 AND @r MOD 900 + 9;
UPDATE t SET day = day + INTERVAL 400 DAY WHERE id = 1 + @s MOD 900;
INSERT INTO t (id, day, v) VALUES (@n, '1999-01-01', 1);
DELETE FROM t WHERE id = 1 + @r MOD 900;
