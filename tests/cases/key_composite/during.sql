-- @writer
-- @allow 1062
UPDATE t SET v = v + 1 WHERE tenant = @r MOD 3 AND name = CONCAT('NAME', @s MOD 50);
UPDATE t SET name = UPPER(name), v = -v WHERE id BETWEEN @s MOD 900 AND @s MOD 900 + 5;
UPDATE t SET tenant = tenant + 1, day = day - INTERVAL 1 DAY WHERE id = @r MOD 1000;
DELETE FROM t WHERE id = @s MOD 1000;
INSERT INTO t (tenant, name, day, v, id) VALUES (@i MOD 5, CONCAT('n', @n), CURDATE(), 1, @r MOD 1000);
