-- @writer
UPDATE t SET id = id + 1 WHERE maybe BETWEEN @r MOD 300 AND @r MOD 300 + 9;
