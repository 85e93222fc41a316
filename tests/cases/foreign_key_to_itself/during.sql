-- @writer
-- @allow 1205 1213 1452 6575
INSERT INTO t (id, up) VALUES (1000 + @n, 1 + @r MOD 800);
DELETE FROM t WHERE id = 20 + @s MOD 700;
UPDATE t SET up = 1 + @s MOD 9 WHERE id = 20 + @r MOD 700;
