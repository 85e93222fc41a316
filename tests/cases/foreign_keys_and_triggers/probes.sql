-- @refused 1452
INSERT INTO t (id, p_id, v) VALUES (-1, -1, 0);
-- @changes t p child
INSERT INTO t (id, p_id, v) VALUES (-1, 1, 0);
-- @changes t audit p
UPDATE t SET v = 5, p_id = 2 WHERE id = -1;
-- @changes t p child
DELETE FROM t WHERE id = -1;
