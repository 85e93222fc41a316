-- @writer
-- @session SET NAMES utf8mb4
-- @allow 1062
UPDATE t SET s = CONCAT('É', @i), c = CONCAT('Ä', @i MOD 9), x = CONCAT('õ', @n), e = 'b', st = 'o,y' WHERE id BETWEEN @r MOD 700 AND @r MOD 700 + 5;
INSERT INTO t (id, v, x) VALUES (1000 + @n, 1, 'ñ');
UPDATE t SET v = v + 1, b = X'80FE' WHERE id BETWEEN @s MOD 700 AND @s MOD 700 + 5;
DELETE FROM t WHERE id = 1 + @s MOD 700;
