-- @changes t
UPDATE t SET w = 100 WHERE id = 9;
