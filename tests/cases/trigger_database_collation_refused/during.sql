-- @writer
INSERT INTO t (id) VALUES (@n);
