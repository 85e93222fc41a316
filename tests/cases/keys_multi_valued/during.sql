-- @writer
UPDATE t SET d = JSON_OBJECT('tags', JSON_ARRAY(@i, @i + 5, @i + 6)) WHERE id BETWEEN @r MOD 700 AND @r MOD 700 + 9;
UPDATE t SET d = IF(d IS NULL, '[]', NULL), z = z + 1 WHERE id BETWEEN @s MOD 700 AND @s MOD 700 + 3;
INSERT INTO t (id, d) VALUES (@n, '{"tags": [1, 2, 3], "names": ["é"]}');
DELETE FROM t WHERE id = 1 + @s MOD 700;
