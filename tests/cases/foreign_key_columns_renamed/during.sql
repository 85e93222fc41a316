-- @writer
-- @allow 1451 1452 1062
UPDATE t SET p_id = 1 + @s MOD 300, up = 1 + @s MOD 600 WHERE id = 1 + @r MOD 600;
INSERT INTO t (id, p_id, code) VALUES (@n, 1 + @r MOD 300, @n);
INSERT INTO child VALUES (@n, @n);
DELETE FROM t WHERE id = @n - 2;
-- @after
-- @allow 1451 1452 1062
UPDATE t SET parent = 1 + @s MOD 300 WHERE k = 1 + @r MOD 600;
INSERT INTO t (k, parent, `the code`) VALUES (@n, 1 + @r MOD 300, @n);
INSERT INTO child VALUES (@n, @n);
DELETE FROM t WHERE k = @n - 2;
