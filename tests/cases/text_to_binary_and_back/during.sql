-- @writer
UPDATE t SET a = ELT(1 + @i MOD 4, '😀', 'x ', '', NULL), b = ELT(1 + @i MOD 4, '😀', 'x ', '', NULL), c = 'y  ', d = ELT(1 + @i MOD 3, X'00', X'616200', NULL) WHERE id BETWEEN @r MOD 700 AND @r MOD 700 + 5;
UPDATE t SET e = CONCAT('e', @i, ' '), f = 'ä', g = 'ä' WHERE id BETWEEN @s MOD 700 AND @s MOD 700 + 5;
INSERT INTO t (id, a, b, d) VALUES (@n, 'n', 'n', 'n');
DELETE FROM t WHERE id = @s MOD 700;
