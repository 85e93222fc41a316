-- @writer
-- @session SET sql_mode = ''
UPDATE t SET d = '0000-00-00', dt = '2020-00-00', v = v + 1 WHERE id BETWEEN @r MOD 700 AND @r MOD 700 + 5;
INSERT INTO t (id, d, v) VALUES (1000 + @n, '2020-01-00', 7);
DELETE FROM t WHERE id BETWEEN 400 AND 700 AND id = 1 + @s MOD 700;
