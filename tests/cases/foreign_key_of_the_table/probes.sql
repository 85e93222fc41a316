-- @changes parent
INSERT INTO parent VALUES (-1), (-2);
-- @changes guardian
INSERT INTO guardian VALUES (-1, -2);
-- @changes t
INSERT INTO t (id, p, g) VALUES (-1, -1, NULL), (-2, NULL, -1);
-- @refused 1452
INSERT INTO t (id, p) VALUES (-3, -9);
-- @changes parent t
UPDATE parent SET id = -7 WHERE id = -1;
-- @changes parent t
DELETE FROM parent WHERE id = -7;
-- @changes parent guardian t
DELETE FROM parent WHERE id = -2;
