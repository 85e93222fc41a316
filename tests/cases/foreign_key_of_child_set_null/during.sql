-- @writer
-- @allow 1452 1062
INSERT INTO p (id, v) VALUES (@n, 0);
INSERT INTO t (id, p_id, v) VALUES (@n, @n, 0), (-@n, NULL, 0);
UPDATE t SET v = v + 1 WHERE id = 1 + @r MOD 600;
DELETE FROM p WHERE id = @n - 2;
UPDATE p SET id = @n + 500000 WHERE id = 1 + @s MOD 300;
-- @writer
-- @allow 1452
UPDATE t SET v = v + 1, p_id = 1 + @s MOD 300 WHERE id = 1 + @r MOD 600;
INSERT INTO t (id, p_id, v) VALUES (@n, 1 + @s MOD 300, 0);
