-- @writer
-- @allow 1062
-- @session SET time_zone = '+05:30'
UPDATE t SET v = v + 1 WHERE ts > '2026-10-24 16:00:00.125+00:00' + INTERVAL (@r MOD 800) * 30 SECOND ORDER BY ts LIMIT 5;
UPDATE t SET ts = ts + INTERVAL 1 HOUR WHERE v = 1 + @s MOD 800;
INSERT INTO t (ts, id) VALUES ('2026-10-25 00:30:00.25+00:00', @n);
DELETE FROM t WHERE v = 1 + @r MOD 800;
