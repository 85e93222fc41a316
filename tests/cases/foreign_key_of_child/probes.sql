-- @refused 1452
INSERT INTO t (id, p_id, v) VALUES (0, -1, 0);
-- @refused 1451
DELETE FROM p WHERE id = (SELECT p_id FROM t WHERE p_id IS NOT NULL LIMIT 1);
-- @changes p
INSERT INTO p VALUES (-1, 0);
-- @changes t
INSERT INTO t (id, p_id, v) VALUES (0, -1, 0);
-- @refused 1452
UPDATE t SET p_id = -2 WHERE id = 0;
