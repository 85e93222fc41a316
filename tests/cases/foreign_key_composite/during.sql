-- @writer
-- @allow 1451 1452
INSERT INTO p VALUES (@n, 'x', @n);
INSERT INTO t (id, b, a, c) VALUES (@n, 'x', @n, 7), (-@n, 'x', @n, 8);
INSERT INTO child VALUES (@n, 7, @n, @n), (-@n, NULL, @n, 4);
UPDATE t SET a = NULL WHERE id = 2 - @n;
DELETE FROM t WHERE id = @n;
UPDATE t SET b = CONCAT('b', 1 + @s MOD 300), a = 1 + @s MOD 300 WHERE id = 1 - @n;
DELETE FROM t WHERE id = 1 + @r MOD 600;
