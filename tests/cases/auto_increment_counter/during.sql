-- @writer
UPDATE t SET v = v + 1 WHERE id BETWEEN @r MOD 400 AND @r MOD 400 + 20;
-- @meanwhile
INSERT INTO t (id, v) VALUES (700000, 1);
DELETE FROM t WHERE id = 700000;
