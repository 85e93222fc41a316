-- @writer
-- @allow 1062
UPDATE t SET k = IF(BINARY k = BINARY UPPER(k), LOWER(k), UPPER(k)) WHERE v BETWEEN @r MOD 800 AND @r MOD 800 + 4;
DELETE FROM t WHERE v = @r MOD 800;
INSERT INTO t (k, v) VALUES (CONCAT('new', @n), @i);
DO SLEEP(0.03);
