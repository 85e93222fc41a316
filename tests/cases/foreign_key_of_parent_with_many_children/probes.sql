-- @refused 1452
INSERT INTO a VALUES (-1, -1);
-- @refused 1452
INSERT INTO d VALUES (-1, -1);
INSERT INTO t (id, v) VALUES (-1, 0), (-2, 0), (-3, 0);
INSERT INTO a VALUES (-1, -3);
INSERT INTO b VALUES (-1, -1);
INSERT INTO c VALUES (-1, -1), (-2, -2);
INSERT INTO e VALUES (-1, -1), (-2, -2);
INSERT INTO f VALUES (-1, -1);
-- @refused 1451
DELETE FROM t WHERE id = -3;
-- @changes t b c e f
DELETE FROM t WHERE id = -1;
-- @changes t c e
UPDATE t SET id = -4 WHERE id = -2;
