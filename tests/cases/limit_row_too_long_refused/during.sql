-- @writer
UPDATE t SET v = v + 1 WHERE id BETWEEN @r MOD 300 AND @r MOD 300 + 5;
