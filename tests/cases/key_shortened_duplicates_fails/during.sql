-- @writer
UPDATE t SET v = v + 1 WHERE id BETWEEN @r MOD 400 AND @r MOD 400 + 9;
