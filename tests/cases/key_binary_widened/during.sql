-- @writer
-- @allow 1062
UPDATE t SET v = v + 1000 WHERE v BETWEEN @r MOD 800 + 1 AND @r MOD 800 + 8;
UPDATE t SET k = INSERT(k, 8, 1, CHAR(@i MOD 256)) WHERE v = @s MOD 800;
INSERT INTO t (k, v) VALUES (UNHEX(HEX(@n)), -1), (CONCAT(UNHEX(HEX(@n)), X'20'), -2), (CONCAT(UNHEX(HEX(@n)), X'0001'), -3);
DELETE FROM t WHERE v = @r MOD 800;
