-- @changes t moved
UPDATE t SET day = 9, v = v + 1 WHERE id = 5;
-- @changes t moved
DELETE FROM t WHERE id = 6;
