-- @refused 1452
INSERT INTO {other}.child VALUES (-1, -1);
-- @refused 1452
INSERT INTO {other}.t VALUES (-1, -1);
INSERT INTO t (id, v) VALUES (-1, 0);
INSERT INTO {other}.child VALUES (-1, -1);
INSERT INTO {other}.t VALUES (-1, -1);
-- @changes t {other}.child {other}.t
DELETE FROM t WHERE id = -1;
