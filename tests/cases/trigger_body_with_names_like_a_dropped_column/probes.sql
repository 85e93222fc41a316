-- @changes t audit
UPDATE t SET amount2 = -1 WHERE id = 9;
-- @changes t
INSERT INTO t (id, amount2) VALUES (-1, 2);
