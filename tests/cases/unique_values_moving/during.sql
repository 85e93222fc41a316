-- @writer
-- @allow 1062
BEGIN;
UPDATE t SET slot = -1 WHERE id = 1 + @r MOD 1000;
UPDATE t SET slot = 1 + @r MOD 1000 WHERE id = 1 + @s MOD 1000 AND slot = 1 + @s MOD 1000;
UPDATE t SET slot = @n WHERE slot = -1;
COMMIT;
-- @writer
-- @allow 1062
BEGIN;
DELETE FROM t WHERE slot = 1 + @r MOD 1000;
INSERT INTO t (id, slot, v) VALUES (@n, 1 + @r MOD 1000, -1);
COMMIT;
UPDATE t SET slot = slot + 1 WHERE id BETWEEN @s MOD 1000 AND @s MOD 1000 + 20 ORDER BY slot DESC;
REPLACE INTO t (id, slot, v) VALUES (1 + @r MOD 1000, 1 + @s MOD 1000, -2);
INSERT INTO t (id, slot, v) VALUES (1 + @r MOD 1000, 1 + @s MOD 1000, -3) ON DUPLICATE KEY UPDATE v = v - 1;
