-- @writer
-- @allow 1452
UPDATE t SET p_id = 1 + @s MOD 300, v = v + 1 WHERE id = 1 + @r MOD 600;
INSERT INTO p (id, v) VALUES (@n, 0);
INSERT INTO t (id, p_id, v) VALUES (@n, @n, 0), (-@n, NULL, 0);
DELETE FROM t WHERE id = @n;
DELETE FROM p WHERE id = @n AND @i MOD 2;
-- @writer
-- @allow 1451
UPDATE p SET v = v + 1 WHERE id = 1 + @r MOD 300;
DELETE FROM p WHERE id = 251 + @s MOD 50;
