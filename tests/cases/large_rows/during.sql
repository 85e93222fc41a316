-- @writer
UPDATE t SET body = REPEAT('é', 300000 + @i), small = small + 1 WHERE id = 1 + @r MOD 120;
UPDATE t SET raw = CONCAT(raw, X'00'), body = NULL WHERE id = 1 + @s MOD 120;
INSERT INTO t (body, raw, small) VALUES ('', REPEAT(X'5C', 200000), @i);
DELETE FROM t WHERE id = 120 + @r MOD 20;
