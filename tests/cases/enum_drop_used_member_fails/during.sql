-- @writer
UPDATE t SET state = 'old' WHERE id = @r MOD 400;
INSERT INTO t (id, state) VALUES (@n, 'new');
