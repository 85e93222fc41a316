-- @writer
-- @allow 1062
UPDATE t SET v = v + 1 WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 5;
INSERT INTO t (id, v, s) VALUES (1000 + @n, @r, 'new');
DELETE FROM t WHERE id = 1 + @s MOD 800;
-- @writer
-- @allow 1062
UPDATE t SET id = id + 100000 WHERE id BETWEEN 1 + @s MOD 800 AND 3 + @s MOD 800;
UPDATE t SET c = CONCAT('d', @n MOD 1000000) WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 5;
