-- @writer
UPDATE t SET day = (day + 4) MOD 9, v = v + 1 WHERE id = 1 + @r MOD 600;
INSERT INTO t (id, day, v) VALUES (@n, @n MOD 9, 0);
DELETE FROM t WHERE id = @n AND @i MOD 2 = 0;
