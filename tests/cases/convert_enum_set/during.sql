-- @writer
UPDATE t SET a = 1 + @i MOD 3, b = ELT(1 + @i MOD 3, 'on', 'off', NULL), c = @i MOD 8, d = '3', e = 1 + @i MOD 2 WHERE id BETWEEN @r MOD 700 AND @r MOD 700 + 9;
UPDATE t SET f = '', g = ELT(1 + @i MOD 4, '', 'm', 'm,n', NULL) WHERE id BETWEEN @s MOD 700 AND @s MOD 700 + 3;
INSERT INTO t (id, a, e, g) VALUES (@n, 'z', 'red', 'n');
DELETE FROM t WHERE id = 1 + @s MOD 700;
-- @after
UPDATE t SET a = 'free text', e = 'blue', f = 'c' WHERE id BETWEEN @s MOD 700 AND @s MOD 700 + 3;
