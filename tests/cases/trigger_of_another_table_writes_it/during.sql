-- @writer
INSERT INTO orders VALUES (@n, 1 + @r MOD 600);
DELETE FROM orders WHERE id = @n - 3;
-- @writer
BEGIN;
INSERT INTO orders VALUES (@n, 1 + @r MOD 600);
INSERT INTO orders VALUES (-@n, 1 + @s MOD 600);
COMMIT;
