-- @writer
UPDATE t SET v = v + 1 WHERE id BETWEEN @r MOD 400 AND @r MOD 400 + 20;
DELETE FROM t WHERE id > 400 + @i;
