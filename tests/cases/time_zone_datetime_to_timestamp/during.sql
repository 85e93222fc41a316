-- @writer
-- @session SET time_zone = '+09:00'
UPDATE t SET dt = '2026-10-25 02:30:00', v = v + 1 WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 5;
UPDATE t SET d = '2030-06-01', dt = '2038-01-19 04:14:07' WHERE id = 1 + @s MOD 800;
INSERT INTO t (id, dt, d) VALUES (@n, '1970-01-01 01:00:01', NULL);
DELETE FROM t WHERE id = 1 + @s MOD 800;
-- @after
UPDATE t SET dt = '2026-10-25 02:30:00', v = v + 1 WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 5;
INSERT INTO t (id, dt, d) VALUES (@n, '1970-01-02 01:00:01', NULL);
