-- @writer
-- @allow 1062 1213 1205
BEGIN;
DELETE FROM t WHERE id = 1 + @r MOD 900;
INSERT INTO t (id, i, v) VALUES (1 + @r MOD 900, @i MOD 5, 5);
UPDATE t SET i = i + 1 WHERE id = 1 + @r MOD 900;
COMMIT;
UPDATE t SET i = i + 1, id = id + 5000 WHERE id = 1 + @s MOD 900;
UPDATE t SET id = id - 5000, i = i - 1 WHERE id > 5000;
REPLACE INTO t (id, i, v) VALUES (1 + @s MOD 900, @r MOD 7, 2);
UPDATE t SET i = -i;
-- @after
UPDATE t SET v = v + 1 WHERE nid = 1 + @r MOD 900;
-- @writer
-- @allow 1062 1213 1205
BEGIN;
UPDATE t SET id = -1 - @n WHERE id = 1 + @r MOD 900;
UPDATE t SET id = 1 + @r MOD 900, i = i + 1 WHERE id = 1 + @s MOD 900;
UPDATE t SET id = 1 + @s MOD 900 WHERE id = -1 - @n;
ROLLBACK;
BEGIN;
UPDATE t SET id = -1 - @n, i = 9 WHERE id = 1 + @r MOD 900;
UPDATE t SET id = 1 + @r MOD 900, i = i + 1 WHERE id = 1 + @s MOD 900;
UPDATE t SET id = 1 + @s MOD 900 WHERE id = -1 - @n;
COMMIT;
-- @after
UPDATE t SET v = v + 1 WHERE nid = 1 + @s MOD 900;
