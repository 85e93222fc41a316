-- @writer
-- @allow 1205 1213 1452
INSERT INTO t (id, p, g, v) VALUES (1000 + @n, 1 + @r MOD 60, 1 + @s MOD 60, @n);
UPDATE t SET v = v + 1 WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 20;
-- @writer
-- @allow 1062 1205 1213 1451 1452
DELETE FROM parent WHERE id = 1 + @r MOD 60;
INSERT INTO parent (id) VALUES (1 + @s MOD 60);
INSERT INTO guardian (id, parent) VALUES (1 + @s MOD 60, 1 + @s MOD 60);
UPDATE parent SET id = id + 100 WHERE id = 1 + @i MOD 60;
DELETE FROM guardian WHERE id = 1 + @n MOD 60;
