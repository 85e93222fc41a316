-- @refused 1452
INSERT INTO t (id, b, a, c) VALUES (-1, 'b1', 2, 0);
-- @refused 1452
INSERT INTO child VALUES (0, 0, 2, -1);
INSERT INTO t (id, b, a, c) VALUES (-1, 'b2', 2, 0);
INSERT INTO child VALUES (0, 0, 2, -1);
-- @refused 1451
DELETE FROM p WHERE a = 2;
-- @changes t child
DELETE FROM t WHERE id = -1;
