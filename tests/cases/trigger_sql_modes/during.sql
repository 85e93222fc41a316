-- @writer
UPDATE t SET n = n + 1 WHERE id = 1 + @r MOD 600 AND n < 100;
INSERT INTO t (id) VALUES (@n);
DELETE FROM t WHERE id = @n - 3;
