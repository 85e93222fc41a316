-- @writer
-- @allow 1452
INSERT INTO t (id, p_id, v) VALUES (@n, 1 + @r MOD 300, 0), (-@n, 1 + @s MOD 300, 0);
UPDATE t SET v = v + 1, p_id = 1 + @s MOD 300 WHERE id = 1 + @r MOD 600;
DELETE FROM t WHERE id = @n - 2;
-- @writer
-- @allow 1452
BEGIN;
UPDATE t SET v = v + 1 WHERE id BETWEEN 1 + @r MOD 600 AND 4 + @r MOD 600;
INSERT INTO t (id, p_id, v) VALUES (@n, 1 + @r MOD 300, 0);
COMMIT;
DELETE FROM t WHERE id = 1 + @s MOD 600;
