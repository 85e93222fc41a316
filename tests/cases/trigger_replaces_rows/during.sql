-- @writer
REPLACE INTO t (id, u, v) VALUES (1 + @r MOD 600, 1 + @s MOD 600, @i);
INSERT INTO t (id, u, v) VALUES (1 + @s MOD 600, 1 + @r MOD 600, 1) ON DUPLICATE KEY UPDATE v = v + 1;
INSERT IGNORE INTO t (id, u, v) VALUES (1 + @r MOD 900, -@n, 3);
-- @writer
-- @allow 1062
UPDATE t SET id = id + 1000 WHERE id = 1 + @r MOD 600;
REPLACE INTO t (id, u, v) SELECT id - 1000, u, v FROM t WHERE id > 1000 AND id < 2000 LIMIT 3;
