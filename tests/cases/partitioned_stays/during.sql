-- @writer
UPDATE t SET v = v + 1, w = 'w' WHERE id BETWEEN @r MOD 900 AND @r MOD 900 + 9;
INSERT INTO t (v, w) VALUES (1, 'n');
DELETE FROM t WHERE id = 1 + @r MOD 900;
