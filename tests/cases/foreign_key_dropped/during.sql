-- @writer
-- @allow 1205 1213 1452
INSERT INTO t (id, p, q) VALUES (1000 + @n, 1 + @r MOD 60, 1 + @s MOD 60);
UPDATE t SET q = 1 + @r MOD 60 WHERE id = 1 + @s MOD 800;
INSERT INTO parent (id) VALUES (100 + @n);
