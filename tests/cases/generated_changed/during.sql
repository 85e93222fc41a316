-- @writer
UPDATE t SET first = CONCAT('g', @i) WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 9;
UPDATE t SET last = IF(last IS NULL, 'ü', NULL) WHERE id BETWEEN @s MOD 800 AND @s MOD 800 + 3;
INSERT INTO t (id, first) VALUES (@n, 'new');
DELETE FROM t WHERE id = 1 + @s MOD 800;
