-- @writer
UPDATE t SET a = a + 1 WHERE id BETWEEN 600 AND 700;
