-- @writer
-- @allow 1451 1452
UPDATE t SET `the ``p` = 1 + @s MOD 300, `é;` = 1 + @r MOD 300, v = v + 1 WHERE id = 1 + @r MOD 600;
INSERT INTO t (id, `the ``p`, v) VALUES (@n, 1 + @r MOD 300, 0);
INSERT INTO `child`` of -- t` VALUES (@n, @n);
DELETE FROM t WHERE id = @n - 1;
