-- @refused 1452
INSERT INTO child VALUES (-1, -1, NULL, NULL, 1);
-- @refused 1452
INSERT INTO child VALUES (-1, NULL, NULL, NULL, -1);
INSERT INTO t (id, code, v) VALUES (-1, -1, 0), (-2, -2, 0);
INSERT INTO child VALUES (-1, NULL, -2, -1, -2);
-- @changes t child
UPDATE t SET code = -3 WHERE id = -1;
-- @changes t child
DELETE FROM t WHERE id = -2;
