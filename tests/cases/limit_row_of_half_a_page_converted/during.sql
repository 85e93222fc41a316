-- @writer
UPDATE t SET c1 = REPEAT('b', 250), c2 = REPEAT('c', 250), v = v + 1 WHERE id BETWEEN @r MOD 300 AND @r MOD 300 + 5;
INSERT INTO t (id, v) VALUES (1000 + @n, @r);
DELETE FROM t WHERE id = 1 + @s MOD 300;
