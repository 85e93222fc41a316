-- @writer
UPDATE t SET b = b + 1, c = CONCAT('w', @i) WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 9;
INSERT INTO t (id, b, c) VALUES (@n, 1, '');
DELETE FROM t WHERE id = 1 + @s MOD 800;
