-- @writer
UPDATE t SET v = v + 1 WHERE s = @r MOD 5;
