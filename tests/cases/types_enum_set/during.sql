-- @writer
-- @session SET sql_mode = ''
UPDATE t SET e = @i MOD 9, e1 = @i MOD 2 WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 5;
UPDATE t SET e = NULL, el = @i MOD 3, s = @i MOD 16 WHERE id BETWEEN @s MOD 800 AND @s MOD 800 + 5;
UPDATE t SET s = '', s64 = ELT(1 + @i MOD 4, 18446744073709551615, 9223372036854775808, 0, NULL) WHERE id BETWEEN @s MOD 800 AND @s MOD 800 + 5;
INSERT INTO t (id, e, e1, s) VALUES (@n, '', 'only', 'x,ö'), (@n + 500000, 'nonsense', 'nonsense', 'nonsense');
DELETE FROM t WHERE id = 1 + @s MOD 800;
