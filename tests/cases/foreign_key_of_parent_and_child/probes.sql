-- @refused 1452
INSERT INTO child VALUES (0, -1);
-- @refused 1452
INSERT INTO t (id, p_id, v) VALUES (-1, -1, 0);
INSERT INTO t (id, p_id, v) VALUES (-1, 1, 0);
INSERT INTO child VALUES (0, -1);
-- @changes t child
DELETE FROM t WHERE id = -1;
