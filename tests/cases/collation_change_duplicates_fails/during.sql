-- @writer
-- @allow 1062
UPDATE t SET k = CONCAT('x', @n) WHERE id = 10 + @r MOD 500;
INSERT INTO t (id, k) VALUES (@n, @n);
