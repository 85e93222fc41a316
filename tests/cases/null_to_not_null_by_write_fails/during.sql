-- @writer
INSERT INTO t (id, maybe) VALUES (@n, 1);
UPDATE t SET maybe = @i WHERE id = @r MOD 600;
-- @meanwhile
UPDATE t SET maybe = NULL WHERE id = 650;
