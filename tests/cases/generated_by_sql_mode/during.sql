-- @writer
UPDATE t SET a = a + 1 WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 5;
UPDATE t SET b = b + 300, at = '2026-12-31 23:59:59.999' WHERE id BETWEEN @s MOD 800 AND @s MOD 800 + 5;
INSERT INTO t (id, a, b, at) VALUES (@n, 1, 2, '2026-02-28 12:00:00.6');
DELETE FROM t WHERE id = 1 + @s MOD 800;
