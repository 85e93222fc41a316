-- @writer
-- @allow 1451 1452
UPDATE t SET v = v + 1 WHERE id = 1 + @r MOD 600;
INSERT INTO t (id, v) VALUES (@n, 0);
INSERT INTO {other}.child VALUES (@n, @n);
INSERT INTO {other}.t VALUES (@n, 1 + @s MOD 600);
DELETE FROM t WHERE id = @n - 2;
DELETE FROM t WHERE id = 1 + @s MOD 600;
