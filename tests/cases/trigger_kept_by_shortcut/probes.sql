-- @changes t audit
UPDATE t SET v = -1 WHERE id = 3;
