-- @writer
UPDATE t SET g = ELT(1 + @i MOD 3, CONVERT(X'815C' USING gbk), '汉\\', NULL), j = ELT(1 + @i MOD 3, CONVERT(X'955C' USING sjis), 'x  ', NULL), u = ELT(1 + @i MOD 3, '😀é ', '', NULL) WHERE id BETWEEN @r MOD 700 AND @r MOD 700 + 5;
UPDATE t SET m = CONCAT(m, 'ü'), e = 1 + @i MOD 2 WHERE id BETWEEN @s MOD 700 AND @s MOD 700 + 5;
INSERT INTO t (id, g) VALUES (@n, '新');
DELETE FROM t WHERE id = @s MOD 700;
