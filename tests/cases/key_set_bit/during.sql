-- @writer
-- @allow 1062
UPDATE t SET v = v + 1 WHERE v BETWEEN @r MOD 800 AND @r MOD 800 + 5;
UPDATE t SET s = '', b = b + 1 WHERE v = @s MOD 800;
UPDATE t SET s = @i MOD 32 WHERE v = @r MOD 800 + 1;
DELETE FROM t WHERE v = @s MOD 800 + 2;
INSERT INTO t (s, b, v) VALUES ('a,e', 1000000000000 + @n, -1);
