-- @writer
UPDATE t SET a = @i MOD 256 - 128, b = 65535, c = 'twelve chars', d = 9999.999999, f = 4294967295 WHERE id BETWEEN @r MOD 700 AND @r MOD 700 + 5;
INSERT INTO t (id, a, b, e) VALUES (@n, NULL, 0, 'x');
DELETE FROM t WHERE id = @s MOD 700;
