-- @writer
-- @allow 1062
UPDATE t SET k = IF(k LIKE '% ', RTRIM(k), CONCAT(k, '  ')) WHERE v BETWEEN @r MOD 800 AND @r MOD 800 + 4;
UPDATE t SET k = CONCAT(k, CHAR(1 USING utf8mb4)) WHERE v = @s MOD 800 AND LENGTH(k) < 20;
DELETE FROM t WHERE v = @r MOD 800;
INSERT INTO t (k, v) VALUES (CONCAT('A', @s MOD 200, '   '), @s MOD 800);
REPLACE INTO t (k, v) VALUES (CONCAT('hot', REPEAT(' ', @i MOD 5)), 9000);
-- @writer
-- @allow 1062
UPDATE t SET k = CONCAT('hot', REPEAT(' ', @i MOD 4)), v = v + 1 WHERE k = 'hot';
DELETE FROM t WHERE k = 'hot ' AND v > 9003;
