-- @refused 1449
INSERT INTO t (id, v) VALUES (-1, -1);
-- @changes t
UPDATE t SET v = -5 WHERE id = (SELECT * FROM (SELECT MIN(id) FROM t) m);
