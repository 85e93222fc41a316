-- @writer
UPDATE t SET v = v + 1 WHERE id BETWEEN 600 AND 700;
