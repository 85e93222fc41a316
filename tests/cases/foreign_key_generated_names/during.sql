-- @writer
-- @allow 1451 1452
UPDATE t SET p_id = 1 + @s MOD 300, up = 1 + @s MOD 600, v = v + 1 WHERE id = 1 + @r MOD 600;
INSERT INTO p (id) VALUES (@n);
INSERT INTO t (id, p_id, q_id, up, v) VALUES (@n, @n, @n, @n, 0);
INSERT INTO child VALUES (@n, @n);
DELETE FROM child WHERE id = @n - 1;
