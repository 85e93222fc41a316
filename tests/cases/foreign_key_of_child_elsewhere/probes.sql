-- @refused 1452
INSERT INTO t (id, p_id, v) VALUES (-1, -1, 0);
-- @refused 1451
DELETE FROM {other}.t WHERE id = (SELECT p_id FROM t LIMIT 1);
