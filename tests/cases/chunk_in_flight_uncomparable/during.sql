-- @writer
UPDATE t SET v = v + 1 WHERE n MOD 199 = @i MOD 199 AND n MOD 60 <> 1;
UPDATE t SET k = UPPER(k) WHERE n MOD 199 = (@i + 70) MOD 199 AND n MOD 60 <> 1;
UPDATE t SET v = -v WHERE n MOD 199 = (@i + 140) MOD 199 AND n MOD 60 <> 1;
DO SLEEP(0.01);
-- @after
UPDATE t SET v = v + 1, x = @i WHERE n MOD 60 = 1;
