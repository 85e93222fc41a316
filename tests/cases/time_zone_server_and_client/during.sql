-- @writer
-- @session SET time_zone = 'Test/Berlin'
UPDATE t SET ts = '2026-10-25 02:30:00.5', dt = '2026-10-25 02:30:00.5' WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 5;
INSERT INTO t (id, ts, dt) VALUES (@n, NOW(3), NOW(3));
-- @writer
-- @session SET time_zone = 'Test/NewYork'
UPDATE t SET ts = ts + INTERVAL 1 HOUR, dt = ts WHERE id BETWEEN @s MOD 800 AND @s MOD 800 + 5;
DELETE FROM t WHERE id = 1 + @s MOD 800;
