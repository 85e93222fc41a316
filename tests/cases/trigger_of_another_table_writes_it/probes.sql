-- @changes t orders
INSERT INTO orders VALUES (-1, 5);
-- @changes t orders
DELETE FROM orders WHERE id = -1;
