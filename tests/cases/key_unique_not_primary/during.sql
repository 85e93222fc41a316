-- @writer
-- @allow 1062
UPDATE t SET a = a + 1 WHERE code = CONCAT('c', @r MOD 266);
UPDATE t SET code = CONCAT(code, '.') WHERE code = CONCAT('c', @s MOD 266) AND part = 1;
UPDATE t SET maybe = IF(maybe IS NULL, @n, NULL) WHERE code = CONCAT('c', @r MOD 266);
DELETE FROM t WHERE code = CONCAT('c', @s MOD 266) AND part = 2;
INSERT INTO t (a, code, part, maybe) VALUES (NULL, CONCAT('c', @r MOD 266), 3 + @i, NULL);
