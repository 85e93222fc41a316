-- @writer
INSERT INTO t (id, p) VALUES (1000 + @n, 1);
