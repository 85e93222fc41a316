-- @refused 1452
INSERT INTO t (id, p_id, v) VALUES (-1, -1, 0);
-- @refused 1452
INSERT INTO t (id, q_id, v) VALUES (-1, -1, 0);
-- @refused 1452
INSERT INTO t (id, up, v) VALUES (-1, -2, 0);
-- @refused 1452
INSERT INTO child VALUES (400, -1);
