-- @writer
-- @session SET sql_mode = ''
UPDATE t SET d = ELT(1 + @i MOD 3, '0000-00-00', '2020-00-10', '2022-03-04'), v = v + 1 WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 5;
UPDATE t SET dt = ELT(1 + @i MOD 3, '0000-00-00', '2021-12-00', '2023-01-01 10:00:00'), ts = ELT(1 + @i MOD 2, '0000-00-00', '2030-01-01') WHERE id BETWEEN @s MOD 800 AND @s MOD 800 + 5;
INSERT INTO t (v) VALUES (@n);
DELETE FROM t WHERE id = 1 + @r MOD 800;
