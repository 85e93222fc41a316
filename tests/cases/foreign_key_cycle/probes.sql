-- @refused 1452
INSERT INTO t (id, u_id, v) VALUES (-1, -1, 0);
-- @refused 1452
INSERT INTO u (id, t_id, v) VALUES (-1, -1, 0);
INSERT INTO t (id, u_id, v) VALUES (-1, NULL, 0);
INSERT INTO u (id, t_id, v) VALUES (-1, -1, 0);
UPDATE t SET u_id = -1 WHERE id = -1;
-- @refused 1451
DELETE FROM t WHERE id = -1;
-- @refused 1451
DELETE FROM u WHERE id = -1;
