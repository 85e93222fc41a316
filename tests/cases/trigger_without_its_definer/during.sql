-- @writer
UPDATE t SET v = v + 1 WHERE id = 1 + @r MOD 600;
DELETE FROM t WHERE id = 1 + @s MOD 600;
