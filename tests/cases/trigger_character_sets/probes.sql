-- @changes t
INSERT INTO t (id) VALUES (-1);
-- @changes t
UPDATE t SET id = id + 100000 WHERE id IN (3, 4);
