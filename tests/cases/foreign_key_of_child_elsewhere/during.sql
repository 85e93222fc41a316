-- @writer
-- @allow 1451 1452
UPDATE t SET p_id = 1 + @s MOD 300, v = v + 1 WHERE id = 1 + @r MOD 600;
INSERT INTO {other}.t (id) VALUES (@n);
INSERT INTO t (id, p_id, v) VALUES (@n, @n, 0);
DELETE FROM t WHERE id = @n - 1;
DELETE FROM {other}.t WHERE id = @n - 1;
