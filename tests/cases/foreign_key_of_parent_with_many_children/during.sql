-- @writer
-- @allow 1451 1452
UPDATE t SET v = v + 1 WHERE id = 1 + @r MOD 600;
INSERT INTO t (id, v) VALUES (@n, 0), (-@n, 0);
INSERT INTO a VALUES (@n, @n);
INSERT INTO b VALUES (@n, -@n);
INSERT INTO c VALUES (@n, -@n);
INSERT INTO d VALUES (@n, @n);
INSERT INTO e VALUES (@n, -@n);
INSERT INTO f VALUES (@n, 1 + @s MOD 600);
DELETE FROM t WHERE id = -@n;
DELETE FROM t WHERE id = 301 + @s MOD 300;
