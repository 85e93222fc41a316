-- @changes t
INSERT INTO t (id, p_id, v) VALUES (-1, -1, 0);
-- @refused 1452
INSERT INTO t (id, q_id, v) VALUES (-2, -1, 0);
