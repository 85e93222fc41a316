-- @changes t audit
UPDATE t SET n = 99 WHERE id = 7;
-- @changes t
INSERT INTO t (id) VALUES (-1);
-- @changes t audit
DELETE FROM t WHERE id = -1;
