-- @writer
UPDATE t SET amount = 5 WHERE id = @r MOD 600;
INSERT INTO t (id, amount) VALUES (@n, 1);
