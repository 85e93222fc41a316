-- @writer
INSERT INTO t (id, amount) VALUES (@n, 1);
