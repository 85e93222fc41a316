-- @writer
UPDATE t SET v = @n WHERE id = 1 + @r MOD 600;
INSERT INTO t (id) VALUES (@n);
-- @writer
-- @session SET NAMES gbk
UPDATE t SET v = @n WHERE id = 1 + @r MOD 600;
INSERT INTO t (id) VALUES (@n);
