-- @writer
INSERT INTO t (id, v) VALUES (@n, 1000 + @i);
UPDATE t SET v = v + 1 WHERE id = 1 + @r MOD 300;
DELETE FROM t WHERE id = 301 + @s MOD 300;
