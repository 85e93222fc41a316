-- @writer
INSERT INTO t (id, p_id) VALUES (@n, 1 + @r MOD 300);
INSERT INTO child VALUES (@n, @n);
