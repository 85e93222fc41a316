-- @writer
UPDATE t SET v = v + 1 WHERE id = 1 + @r MOD 600;
INSERT INTO t (id, v) VALUES (@n, 0), (-@n, 0);
INSERT INTO child VALUES (@n, @n);
DELETE FROM t WHERE id = -@n;
-- @writer
-- @allow 1451 1452 1062
DELETE FROM t WHERE id = 301 + @s MOD 300;
INSERT INTO child VALUES (@n, 1 + @r MOD 600);
DELETE FROM child WHERE id = @n - 2;
UPDATE child SET t_id = 1 + @r MOD 600 WHERE id = 1 + @s MOD 300;
