-- @writer
-- @allow 1062
INSERT INTO t (name, amount, u) VALUES (CONCAT('new ', @i), @i / 7, @n);
UPDATE t SET amount = amount + 1 WHERE id BETWEEN @r MOD 900 AND @r MOD 900 + 20;
UPDATE t SET u = -u WHERE id = 1 + @s MOD 1000;
DELETE FROM t WHERE id = 1 + @r MOD 1000;
-- @writer
-- @allow 1062
BEGIN;
UPDATE t SET u = u + 10000000 WHERE u = @r MOD 1000;
INSERT INTO t (name, amount, u) VALUES ('moved', NULL, @r MOD 1000);
UPDATE t SET name = CONCAT(name, '!') WHERE id BETWEEN @s MOD 1000 AND @s MOD 1000 + 50 AND LENGTH(name) < 30;
COMMIT;
UPDATE t SET id = id + 1000000 WHERE id = 1 + @s MOD 1000;
-- @after
UPDATE t SET note = 'after' WHERE id BETWEEN @s MOD 900 AND @s MOD 900 + 100;
INSERT INTO t (name, note, amount, u) VALUES ('after', 'x', NULL, @n);
