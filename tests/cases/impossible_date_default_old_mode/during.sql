-- @writer
-- @session SET sql_mode = 'STRICT_TRANS_TABLES,ALLOW_INVALID_DATES'
UPDATE t SET d = ELT(1 + @i MOD 3, '2022-02-31', '2022-04-31', '2022-05-05'), s = ELT(1 + @i MOD 2, '2024-06-31', '2024-06-30'), v = v + 1 WHERE id BETWEEN @r MOD 700 AND @r MOD 700 + 5;
INSERT INTO t (id, s, v) VALUES (1000 + @n, '2021-02-30', 7);
DELETE FROM t WHERE id = 1 + @s MOD 700;
