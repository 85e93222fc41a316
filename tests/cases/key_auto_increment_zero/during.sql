-- @writer
-- @session SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'
-- @allow 1062
UPDATE t SET v = v + 1 WHERE id = 0;
UPDATE t SET id = IF(id = 0, -1, 0) WHERE id IN (0, -1);
INSERT INTO t (v) VALUES (@i);
UPDATE t SET v = v + 1 WHERE id BETWEEN @r MOD 600 AND @r MOD 600 + 20;
-- @writer
-- @session SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'
-- @allow 1062
REPLACE INTO t (id, v) VALUES (0, @n);
DELETE FROM t WHERE id = 1 + @s MOD 600;
