-- @writer
-- @allow 1205 1213
UPDATE t SET v = v + 1 WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 30;
UPDATE t SET id = 100000 + @n WHERE id = (@r MOD 800) + 1;
INSERT INTO t (id, v, code) VALUES (1000000 + @n, 1, 1000000 + @n);
-- @writer
-- @allow 1205 1213 1452
DELETE FROM t WHERE id > 1000 AND v < 3 LIMIT 2;
INSERT INTO child (t_id) VALUES (@r MOD 800);
DELETE FROM child WHERE t_id = @s MOD 800;
