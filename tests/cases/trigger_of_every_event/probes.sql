-- @changes t audit
INSERT INTO t (id, v) VALUES (999, 5);
-- @changes t audit
UPDATE t SET v = -1 WHERE id IN (1, 2, 3, 999);
-- @changes t audit
DELETE FROM t WHERE id = 999;
