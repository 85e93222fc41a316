-- @writer
-- @session SET sql_mode = ''
UPDATE t SET e = 1 + @i MOD 2, s = @i MOD 4, v = v + 1 WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 5;
INSERT INTO t (e, s, v) VALUES ('a', 'x,y', @n);
UPDATE t SET e = 'c', s = '' WHERE id BETWEEN @s MOD 800 AND @s MOD 800 + 2;
DELETE FROM t WHERE id = 1 + @s MOD 800;
-- @writer
-- @session SET sql_mode = ''
UPDATE t SET e = 3, s = 4 + @i MOD 4 WHERE id = @s MOD 800;
-- @after
UPDATE t SET e = 3, s = @i MOD 4 WHERE id = @s MOD 800;
