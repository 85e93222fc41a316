-- @writer
UPDATE t SET v = ELT(1 + @i MOD 4, '€uro', 'quote '' \\', ' ', NULL), c = 'Ä ' WHERE id BETWEEN @r MOD 700 AND @r MOD 700 + 5;
UPDATE t SET x = CONCAT(x, 'Þ') WHERE id BETWEEN @s MOD 700 AND @s MOD 700 + 5;
INSERT INTO t (id, v) VALUES (@n, '½');
DELETE FROM t WHERE id = @s MOD 700;
