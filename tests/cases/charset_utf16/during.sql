-- @writer
UPDATE t SET a = ELT(1 + @i MOD 4, '', '😀é ', _utf16 X'D83DDE000000', NULL), b = ELT(1 + @i MOD 3, 'x ', '日本', NULL), c = ELT(1 + @i MOD 3, '😀', ' ', NULL) WHERE id BETWEEN @r MOD 700 AND @r MOD 700 + 5;
UPDATE t SET d = _ucs2 X'D7FF0000FFFF', e = 1 + @i MOD 2, x = REPEAT('é', @i), k = CONCAT(k, '￿') WHERE id BETWEEN @s MOD 700 AND @s MOD 700 + 5 AND LENGTH(k) < 38;
INSERT INTO t (id, a, k) VALUES (@n, '\0', '');
DELETE FROM t WHERE id = @s MOD 700;
