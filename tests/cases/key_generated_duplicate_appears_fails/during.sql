-- @writer
UPDATE t SET u = u + 10000 WHERE a = 1 + @r MOD 700 AND u < 10000;
-- @meanwhile
INSERT INTO t (a, u) VALUES (8888, 777);
