-- @writer
UPDATE t SET c0 = @r, c1 = 'ü', c2 = '2021-02-03', c3 = @s / 7, c1014 = 1, c1007 = '2022-01-01 10:00:00', c1005 = 'abc', v = v + 1 WHERE id BETWEEN @r MOD 600 AND @r MOD 600 + 40;
INSERT INTO t (id, v, c1000, c1010) VALUES (1000 + @n, @r, 5, '2020-05-05');
DELETE FROM t WHERE id = 1 + @s MOD 600;
