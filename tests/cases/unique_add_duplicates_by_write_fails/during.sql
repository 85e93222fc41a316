-- @writer
INSERT INTO t (id, code) VALUES (@n, @n);
UPDATE t SET code = code - 1 WHERE id = @n;
UPDATE t SET code = code + 10000000 WHERE id = 2 * (@r MOD 400);
-- @meanwhile
UPDATE t SET code = 1 WHERE id = 799;
