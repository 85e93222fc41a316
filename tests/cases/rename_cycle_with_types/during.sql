-- @writer
UPDATE t SET a = 1 + @i WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 9;
UPDATE t SET b = CONCAT('w', @i), c = CURDATE() WHERE id BETWEEN @s MOD 800 AND @s MOD 800 + 9;
INSERT INTO t (id, a, b, c) VALUES (@n, 5, 'five', '2030-01-01');
DELETE FROM t WHERE id = @s MOD 800;
-- @after
UPDATE t SET a = CURDATE(), b = 7, c = 'after' WHERE id BETWEEN @s MOD 800 AND @s MOD 800 + 9;
INSERT INTO t (id, b, c, a) VALUES (@n, 5, 'five', '2030-01-01');
