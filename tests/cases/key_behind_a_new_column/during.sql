-- @writer
-- @allow 1062 1213
UPDATE t SET tenant = tenant + 1 WHERE id BETWEEN @r MOD 900 AND @r MOD 900 + 9;
UPDATE t SET tenant = 0, v = 'zero' WHERE id = 1 + @s MOD 900;
UPDATE t SET id = id + 1000000 WHERE id = 1 + @r MOD 900;
INSERT INTO t (tenant, v) VALUES (@i MOD 4, 'new');
DELETE FROM t WHERE id = 1 + @s MOD 900;
-- @writer
-- @allow 1062 1213
UPDATE t SET tenant = @i MOD 7 WHERE id > 1000000;
UPDATE t SET tenant = 50 - tenant WHERE id BETWEEN @s MOD 900 AND @s MOD 900 + 5;
