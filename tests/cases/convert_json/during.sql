-- @writer
UPDATE t SET a = JSON_SET(a, '$.x', NOW(6), '$.o', CAST(X'00' AS BINARY)), b = CONCAT('[', @i, ', "日本"]'), c = '"scalar"' WHERE id BETWEEN @r MOD 700 AND @r MOD 700 + 9;
UPDATE t SET d = JSON_OBJECT('n', NULL), a = NULL WHERE id BETWEEN @s MOD 700 AND @s MOD 700 + 3;
INSERT INTO t (id, a, b) VALUES (@n, 'null', 'null');
DELETE FROM t WHERE id = 1 + @s MOD 700;
