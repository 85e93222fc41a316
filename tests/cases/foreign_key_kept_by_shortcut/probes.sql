-- @refused 1452
INSERT INTO t (id, p_id) VALUES (-1, -1);
-- @refused 1452
INSERT INTO child VALUES (-1, -1);
