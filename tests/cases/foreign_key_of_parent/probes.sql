-- @refused 1452
INSERT INTO child VALUES (-1, -1);
-- @refused 1451
DELETE FROM t WHERE id = (SELECT t_id FROM child WHERE id = 1);
INSERT INTO t (id, v) VALUES (-1, 0);
-- @changes child
INSERT INTO child VALUES (-1, -1);
-- @refused 1451
UPDATE t SET id = -2 WHERE id = -1;
