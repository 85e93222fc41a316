-- @writer
UPDATE t SET a = a + 1, b = NULL WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 9;
INSERT INTO t (id, a, b) VALUES (@n, NULL, 99);
DELETE FROM t WHERE id = 1 + @s MOD 800;
