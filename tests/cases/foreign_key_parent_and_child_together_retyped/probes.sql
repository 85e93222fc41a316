-- @refused 1452
INSERT INTO u (id, t_id) VALUES (-1, 5000000000);
INSERT INTO t (id, v) VALUES (5000000000, 0);
-- @changes u
INSERT INTO u (id, t_id) VALUES (-1, 5000000000);
-- @refused 1451
DELETE FROM t WHERE id = 5000000000;
