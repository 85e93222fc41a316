-- @writer
-- @allow 1062
UPDATE t SET j = JSON_OBJECT('mail', CONCAT('M', @r MOD 700, '@X'), 'n', @i) WHERE id = 1 + @s MOD 700;
UPDATE t SET hidden = hidden + 1 WHERE id BETWEEN @s MOD 700 AND @s MOD 700 + 9;
DELETE FROM t WHERE mail = CONCAT('m', @r MOD 700, '@x');
INSERT INTO t (id, j, hidden) VALUES (@n, JSON_OBJECT('mail', CONCAT('m', @r MOD 700, '@x')), 7);
