-- @changes t totals {other}.totals
INSERT INTO t (id, v) VALUES (-1, 4);
-- @changes t totals
UPDATE t SET v = v + 1 WHERE id = -1;
-- @changes t totals {other}.totals
DELETE FROM t WHERE id = -1;
