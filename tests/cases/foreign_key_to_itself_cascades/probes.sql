INSERT INTO t (id, up, v) VALUES (-1, -1, 0);
INSERT INTO t (id, up, v) VALUES (-2, -1, 0), (-3, -2, 0);
-- @changes t
DELETE FROM t WHERE id = -1;
-- @refused 1452
INSERT INTO t (id, up, v) VALUES (-4, -3, 0);
