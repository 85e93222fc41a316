-- @writer
UPDATE t SET n = @i MOD 256 WHERE id BETWEEN 300 AND 310;
INSERT INTO t (id, title, n) VALUES (@n, 'x', 255);
-- @meanwhile
UPDATE t SET n = 256 WHERE id = 5;
