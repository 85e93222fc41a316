-- @writer
UPDATE t SET v = v + 1, gone = NULL WHERE id BETWEEN @r MOD 900 AND @r MOD 900 + 9;
INSERT INTO t (id, v) VALUES (@n, 1);
DELETE FROM t WHERE id = 1 + @s MOD 900;
