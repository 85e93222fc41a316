-- @writer
-- @allow 1452
INSERT INTO t (id, p_id, v) VALUES (@n, 1 + @r MOD 300, 0);
INSERT INTO child VALUES (@n, @n), (-@n, 1 + @s MOD 600);
UPDATE t SET v = v + 1, p_id = 1 + @s MOD 300 WHERE id = 1 + @r MOD 600;
DELETE FROM t WHERE id = @n - 2;
DELETE FROM t WHERE id = 1 + @s MOD 600;
