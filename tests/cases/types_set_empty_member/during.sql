-- @writer
-- @session SET sql_mode = ''
UPDATE t SET first = @i MOD 8, last = @s MOD 8, e = @i MOD 3 WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 5;
UPDATE t SET first = 1, last = 4, other = @i MOD 4, s64 = ELT(1 + @i MOD 4, 9223372036854775809, 1, 0, NULL) WHERE id BETWEEN @s MOD 800 AND @s MOD 800 + 5;
INSERT INTO t (id, first, last, other) VALUES (@n, '', ',q', 2), (@n + 500000, 1, 'q,', 'q');
DELETE FROM t WHERE id = 1 + @s MOD 800;
