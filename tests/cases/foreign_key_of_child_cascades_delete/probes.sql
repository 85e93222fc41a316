-- @refused 1452
INSERT INTO t (id, p_id, v) VALUES (0, -1, 0);
INSERT INTO p VALUES (-1, 0);
INSERT INTO t (id, p_id, v) VALUES (0, -1, 0);
-- @changes p t
DELETE FROM p WHERE id = -1;
-- @refused 1452
INSERT INTO t (id, p_id, v) VALUES (1000, -1, 0);
