-- @changes t
INSERT INTO t (id, up) VALUES (-1, NULL), (-2, -1), (-3, -2);
-- @refused 1452
INSERT INTO t (id, up) VALUES (-5, -6);
-- @changes t
DELETE FROM t WHERE id = -1;
