-- @changes t seen
UPDATE t SET v = -1 WHERE id IN (3, 4);
