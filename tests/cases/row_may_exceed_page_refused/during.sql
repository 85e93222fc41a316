-- @writer
UPDATE t SET c16 = REPEAT('x', @i MOD 250), v = v + 1 WHERE id BETWEEN @r MOD 600 AND @r MOD 600 + 5;
INSERT INTO t (id, v, c24) VALUES (1000 + @n, @r, 'new');
DELETE FROM t WHERE id = 1 + @s MOD 600;
