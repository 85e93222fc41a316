-- @writer
UPDATE t SET a = IF(a IS NULL, @n, NULL) WHERE id = 1 + @r MOD 800;
UPDATE t SET b = UPPER(b), c = c + 1000000 WHERE id = 1 + @s MOD 800 AND c < 1000;
INSERT INTO t (id, a, b, c) VALUES (@n, NULL, 'same', -@n), (@n + 500000, @n + 500000, 'same', -@n - 500000);
DELETE FROM t WHERE id = 1 + @s MOD 800;
-- @writer
BEGIN;
DELETE FROM t WHERE a = 5000001 + @i MOD 3;
INSERT INTO t (id, a, b, c) VALUES (9000000 + @i, 5000001 + @i MOD 3, 'moving', -9000000 - @i);
COMMIT;
-- @after
UPDATE t SET b = CONCAT(b, '!') WHERE id = 1 + @r MOD 800;
