-- @writer
-- @allow 1062
UPDATE t SET k = CONCAT(k, '￿') WHERE v BETWEEN @r MOD 800 AND @r MOD 800 + 4 AND CHAR_LENGTH(k) < 20;
UPDATE t SET l = IF(l = 'X', '丂', 'X') WHERE v = @s MOD 800;
DELETE FROM t WHERE v = @r MOD 800;
INSERT INTO t (k, l, v) VALUES (CONCAT('😀', @n), '', 1);
