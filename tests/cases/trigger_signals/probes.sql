-- @refused 30001
UPDATE t SET v = -1 WHERE id = (SELECT * FROM (SELECT MAX(id) FROM t) m);
INSERT INTO t (id, v) VALUES (-1, 200), (-2, 100);
-- @refused 1644
DELETE FROM t WHERE id = -1;
-- @changes t
DELETE FROM t WHERE id = -2;
