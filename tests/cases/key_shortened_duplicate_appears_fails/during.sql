-- @writer
UPDATE t SET v = v + 1 WHERE id BETWEEN @r MOD 900 AND @r MOD 900 + 9;
-- @meanwhile
INSERT INTO t (id, i, v) VALUES (800, 55, 1);
