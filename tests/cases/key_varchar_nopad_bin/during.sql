-- @writer
-- @allow 1062
UPDATE t SET k = IF(k LIKE '% ', RTRIM(k), CONCAT(k, ' ')) WHERE v BETWEEN @r MOD 800 AND @r MOD 800 + 4;
UPDATE t SET k = CONCAT(k, '\0') WHERE v = @s MOD 800 AND LENGTH(k) < 20;
UPDATE t SET k = IF(k = '', '   ', '') WHERE v = -1;
DELETE FROM t WHERE v = @r MOD 800;
INSERT INTO t (k, v) VALUES (CONCAT('A', @n, ' '), 1), (CONCAT('A', @n), 2);
