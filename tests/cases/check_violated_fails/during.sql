-- @writer
UPDATE t SET a = a + 1 WHERE id BETWEEN @r MOD 600 AND @r MOD 600 + 9;
INSERT INTO t (id, a) VALUES (@n, 1);
