-- @writer
UPDATE t SET v = v + 1 WHERE n MOD 10 IN (1, 2, 3, 4);
UPDATE t SET k = IF(BINARY k = BINARY LOWER(k), UPPER(k), LOWER(k)) WHERE n MOD 10 = 5 + @i MOD 4;
-- @after
UPDATE t SET v = v + 1, x = @i WHERE n MOD 10 IN (1, 2, 3, 4);
