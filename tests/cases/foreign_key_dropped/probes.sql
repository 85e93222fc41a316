-- @changes t
INSERT INTO t (id, p, q) VALUES (-1, -1, NULL);
-- @refused 1452
INSERT INTO t (id, p, q) VALUES (-2, 1, -1);
