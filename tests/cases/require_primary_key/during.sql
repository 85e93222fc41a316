-- @writer
SET SESSION sql_mode = '';
UPDATE t SET n = n + 1, d = @r MOD 100, e = 'bad' WHERE v = 1 + @r MOD 800;
UPDATE t SET e = '😀' WHERE v = 1 + @s MOD 800;
INSERT INTO t (k, n, v) VALUES (CONCAT('w', @n), 1, @n);
UPDATE t SET k = CONCAT('x', @n) WHERE k = CONCAT('w', @n);
DELETE FROM t WHERE v = 1 + @s MOD 800;
