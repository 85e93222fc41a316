-- @writer
UPDATE t SET doc = '[1]' WHERE id = @r MOD 300;
INSERT INTO t (id, doc) VALUES (@n, '1');
