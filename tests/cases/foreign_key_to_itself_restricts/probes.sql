-- @refused 1452
INSERT INTO t (id, up, v) VALUES (-1, -2, 0);
INSERT INTO t (id, up, v) VALUES (-1, -1, 0);
INSERT INTO t (id, up, v) VALUES (-2, -1, 0);
-- @refused 1451
DELETE FROM t WHERE id = -1;
-- @changes t
DELETE FROM t WHERE id = -2;
