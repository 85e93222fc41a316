-- @writer
INSERT INTO t (id, a) VALUES (@n, 1);
UPDATE t SET a = a + 1 WHERE id = 1 + @r MOD 600;
-- @meanwhile
UPDATE t SET a = -1 WHERE id = 700;
