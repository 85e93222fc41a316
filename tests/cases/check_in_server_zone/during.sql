-- @writer
-- @session SET time_zone = '-05:00'
UPDATE t SET ts = '2026-07-01 07:00:00', v = v + 1 WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 5;
INSERT INTO t VALUES (@n, '2026-07-02 11:59:59', 1);
DELETE FROM t WHERE id = 1 + @s MOD 800;
