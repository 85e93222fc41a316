-- @writer
-- @allow 1062
UPDATE t SET k = LOWER(k), v = v + 0 WHERE v BETWEEN @r MOD 800 AND @r MOD 800 + 5;
UPDATE t SET k = CONCAT(_latin1 X'818D8F909D', @i) WHERE v = @s MOD 800;
DELETE FROM t WHERE v = @r MOD 800;
INSERT INTO t (k, n, v) VALUES (CONCAT(_latin1 X'C5', @r MOD 200), @s MOD 3000, @r MOD 800);
