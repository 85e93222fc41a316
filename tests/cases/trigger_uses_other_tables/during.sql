-- @writer
UPDATE t SET v = v - 1 WHERE id = 1 + @r MOD 600;
INSERT INTO t (id, v) VALUES (@n, 5), (-@n, 6);
DELETE FROM t WHERE id = @n;
-- @writer
BEGIN;
UPDATE t SET v = v + 1 WHERE id = 1 + @r MOD 600;
INSERT INTO t (id, v) VALUES (@n, 5);
COMMIT;
