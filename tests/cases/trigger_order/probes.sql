-- @changes t log
UPDATE t SET v = 7, path = '' WHERE id IN (5, 6);
-- @changes t
INSERT INTO t (id, v) VALUES (-1, 1);
