-- @writer
UPDATE t SET a = @i, b = CONCAT('é', @i) WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 9;
UPDATE t SET a = NULL, d = NULL WHERE id = 1 + @s MOD 800;
INSERT INTO t (id, a, b) VALUES (@n, 1, 'x');
DELETE FROM t WHERE id = 1 + @s MOD 800;
-- @after
UPDATE t SET a = 55 WHERE v BETWEEN @r MOD 7 AND @r MOD 7 + 9 AND id < 100;
