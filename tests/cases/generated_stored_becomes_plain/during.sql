-- @writer
UPDATE t SET a = @i WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 9;
INSERT INTO t (id, a) VALUES (@n, 1);
DELETE FROM t WHERE id = 1 + @s MOD 800;
-- @after
UPDATE t SET s = -1 WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 9;
