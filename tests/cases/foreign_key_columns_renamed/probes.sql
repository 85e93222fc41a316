-- @refused 1452
INSERT INTO t (k, parent, `the code`) VALUES (-1, -1, -1);
-- @refused 1452
INSERT INTO t (k, up, `the code`) VALUES (-1, -2, -1);
-- @refused 1452
INSERT INTO child VALUES (-1, -1);
INSERT INTO t (k, parent, `the code`, up) VALUES (-1, 1, -1, -1);
INSERT INTO child VALUES (-1, -1);
UPDATE t SET up = NULL WHERE k = -1;
-- @changes t child
DELETE FROM t WHERE k = -1;
