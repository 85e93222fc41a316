-- @writer
-- @session SET NAMES utf8mb4
-- @allow 1062
UPDATE t SET v = v + 1 WHERE id = CONCAT('k', @r MOD 800);
INSERT INTO t (id, v, s) VALUES (CONCAT('né', @n), @r, 'new');
DELETE FROM t WHERE id = CONCAT('k', 1 + @s MOD 800);
UPDATE t SET id = CONCAT('m', @n) WHERE id = CONCAT('k', @s MOD 800);
