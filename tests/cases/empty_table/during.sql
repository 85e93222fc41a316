-- @writer
INSERT INTO t (a) VALUES (@i);
DELETE FROM t WHERE a = @i;
-- @after
INSERT INTO t (a) VALUES (@i), (@i);
