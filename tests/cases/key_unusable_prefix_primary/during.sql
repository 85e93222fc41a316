-- @writer
-- @allow 1062
UPDATE t SET body = CONCAT(body, '!') WHERE code BETWEEN @r MOD 600 AND @r MOD 600 + 5;
UPDATE t SET body = CONCAT('BODY ', @n) WHERE code = 1 + @s MOD 600;
UPDATE t SET code = code + 100000 WHERE code = 1 + @r MOD 600;
INSERT INTO t (body, code, v) VALUES (CONCAT('n', @n), @n, 1);
DELETE FROM t WHERE code = 1 + @s MOD 600;
