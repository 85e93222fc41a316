-- @writer
UPDATE t SET maybe = @i + 1 WHERE id = @r MOD 400;
INSERT INTO t (id, maybe) VALUES (@n, 1);
