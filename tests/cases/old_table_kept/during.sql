-- @writer
UPDATE t SET a = a + 1 WHERE id BETWEEN @r MOD 900 AND @r MOD 900 + 9;
INSERT INTO t (id, a) VALUES (@n, 1);
DELETE FROM t WHERE id = 1 + @s MOD 900;
