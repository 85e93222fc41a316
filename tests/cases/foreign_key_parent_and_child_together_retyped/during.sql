-- @writer
-- @allow 1451 1452
INSERT INTO t (id, v) VALUES (@n, 0);
INSERT INTO u (id, t_id) VALUES (@n, @n);
UPDATE u SET t_id = 1 + @s MOD 600 WHERE id = 1 + @r MOD 600;
UPDATE t SET v = v + 1 WHERE id = 1 + @r MOD 600;
DELETE FROM u WHERE id = @n - 2;
DELETE FROM t WHERE id = @n - 2;
