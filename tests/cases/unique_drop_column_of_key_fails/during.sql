-- @writer
UPDATE t SET a = -a WHERE id = @r MOD 800;
INSERT INTO t (id, a, b) VALUES (@n, @n, 1);
