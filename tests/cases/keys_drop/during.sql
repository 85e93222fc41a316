-- @writer
-- @allow 1062
UPDATE t SET a = a + 10000, b = CONCAT('B', @i) WHERE id = 1 + @r MOD 700;
UPDATE t SET d = JSON_OBJECT('t', JSON_ARRAY(@i, 2)) WHERE id BETWEEN @s MOD 700 AND @s MOD 700 + 9;
INSERT INTO t (id, a, b) VALUES (@n, @n, 'x');
DELETE FROM t WHERE id = 1 + @s MOD 700;
-- @after
UPDATE t SET a = 7 WHERE id BETWEEN @s MOD 700 AND @s MOD 700 + 9;
