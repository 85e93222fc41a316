-- @writer
UPDATE t SET v = v + 1 WHERE id BETWEEN @r MOD 600 AND @r MOD 600 + 5;
INSERT INTO t (id, v) VALUES (@n, 0), (-@n, 0);
UPDATE t SET v = v + 1 WHERE id = -@n;
DELETE FROM t WHERE id = @n;
-- @writer
BEGIN;
INSERT INTO t (id, v) VALUES (@n, 0);
UPDATE t SET v = v + 1 WHERE id = @n;
COMMIT;
BEGIN;
UPDATE t SET v = v + 1 WHERE id = 1 + @s MOD 600;
ROLLBACK;
DELETE FROM t WHERE id = @n AND @i MOD 2;
