-- @writer
-- @session SET sql_mode = ''
UPDATE t SET v = v + 1 WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 5;
