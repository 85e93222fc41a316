-- @refused 1452
INSERT INTO t (id, `the ``p`, v) VALUES (-1, -1, 0);
-- @refused 1452
INSERT INTO t (id, `é;`, v) VALUES (-1, -1, 0);
-- @refused 1452
INSERT INTO `child`` of -- t` VALUES (-1, -1);
INSERT INTO t (id, v) VALUES (-1, 0);
INSERT INTO `child`` of -- t` VALUES (-1, -1);
-- @changes t
DELETE FROM t WHERE id = -1;
