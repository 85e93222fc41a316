-- @writer
-- @allow 1451 1452
INSERT INTO t (id, u_id, v) VALUES (@n, 1 + @r MOD 600, 0);
INSERT INTO u (id, t_id, v) VALUES (@n, @n, 0);
UPDATE t SET u_id = @n, v = v + 1 WHERE id = @n;
UPDATE u SET t_id = 1 + @s MOD 600, v = v + 1 WHERE id = 1 + @r MOD 600;
UPDATE t SET u_id = 1 + @s MOD 600, v = v + 1 WHERE id = 1 + @r MOD 600;
UPDATE t SET u_id = NULL WHERE id = @n - 2;
DELETE FROM u WHERE id = @n - 2;
