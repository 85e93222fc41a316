-- @refused 1452
INSERT INTO child VALUES (-1, 'no such code');
INSERT INTO t (id, code, v) VALUES (-1, 'such', 0);
INSERT INTO child VALUES (-1, 'SUCH');
-- @changes t child
UPDATE t SET code = 'other' WHERE id = -1;
-- @refused 1451
DELETE FROM t WHERE id = -1;
