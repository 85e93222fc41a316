-- @writer
-- @allow 1062
UPDATE t SET v = v + 1 WHERE id BETWEEN @r MOD 900 AND @r MOD 900 + 9;
UPDATE t SET part = 'asia' WHERE id = 1 + @s MOD 900;
INSERT INTO t (part, v) VALUES ('new', @i);
DELETE FROM t WHERE id = 1 + @s MOD 900;
-- @after
UPDATE t SET v = v + 1, id = 7 WHERE number BETWEEN @r MOD 900 AND @r MOD 900 + 9;
INSERT INTO t (region, v) VALUES ('after', @i);
