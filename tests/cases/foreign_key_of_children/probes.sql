-- @changes t
INSERT INTO t (id, code) VALUES (-1, -10), (-2, -20);
-- @changes child
INSERT INTO child (id, t_id) VALUES (-1, -1);
-- @changes pupil
INSERT INTO pupil (id, code) VALUES (-1, -20);
-- @refused 1452
INSERT INTO child (id, t_id) VALUES (-3, -3);
-- @refused 1451
UPDATE t SET code = -30 WHERE id = -2;
-- @changes t child
UPDATE t SET id = -4 WHERE id = -1;
-- @changes t child
DELETE FROM t WHERE id = -4;
-- @changes t pupil
DELETE FROM t WHERE id = -2;
