-- @writer
-- @session SET sql_mode = 'TIME_TRUNCATE_FRACTIONAL'
REPLACE INTO t (id, d, v) VALUES (1 + @r MOD 700, '2021-01-01 01:01:01', @i MOD 9);
INSERT INTO t (id, d, v) VALUES (1000 + @n, '2021-01-01 01:01:01', 1);
DELETE FROM t WHERE id = 1 + @s MOD 700;
-- @meanwhile
UPDATE t SET v = v + 1 WHERE id BETWEEN 5 AND 300;
