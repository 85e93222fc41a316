-- @writer
-- @allow 1062
UPDATE t SET i = i + 1 WHERE name = CONCAT('name', 1 + @r MOD 900);
UPDATE t SET i = i + 1, name = UPPER(name) WHERE name = CONCAT('name', 1 + @s MOD 900);
UPDATE t SET name = LOWER(name), v = v + 1 WHERE v BETWEEN @r MOD 900 AND @r MOD 900 + 9;
DELETE FROM t WHERE name = CONCAT('name', 1 + @s MOD 900);
INSERT INTO t VALUES (CONCAT('Name', 1 + @s MOD 900), 3, 7);
-- @after
UPDATE t SET i = i + 1 WHERE name = CONCAT('name', 1 + @r MOD 900);
INSERT INTO t (name, i, v) VALUES (CONCAT('new', @n), 3, 7);
