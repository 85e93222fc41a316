-- @writer
UPDATE t SET v = v + 1 WHERE k BETWEEN @r MOD 900 AND @r MOD 900 + 9;
-- @meanwhile
UPDATE t SET k = NULL WHERE k = 850;
