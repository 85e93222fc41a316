-- @writer
UPDATE t SET a = @i WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 9;
UPDATE t SET a = NULL, z = 'null' WHERE id = 1 + @s MOD 800;
INSERT INTO t (id, a) VALUES (@n, 1);
DELETE FROM t WHERE id = 1 + @s MOD 800;
