-- @writer
-- @session SET NAMES utf8mb4
-- @allow 1062
UPDATE t SET s = CONCAT('É', @i), c = 'q', x = 'õ' WHERE id BETWEEN @r MOD 700 AND @r MOD 700 + 5;
INSERT INTO t (id, v, x) VALUES (1000 + @n, 1, 'ñ');
UPDATE t SET v = v + 1 WHERE id BETWEEN @s MOD 700 AND @s MOD 700 + 5;
DELETE FROM t WHERE id = 1 + @s MOD 700;
