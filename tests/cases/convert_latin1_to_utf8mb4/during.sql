-- @writer
-- @session SET NAMES latin1
-- @allow 1062
UPDATE t SET c = CONVERT(CHAR(@i MOD 256) USING latin1), v = CONVERT(CHAR(@i MOD 256, 255) USING latin1), e = 1 + @i MOD 3 WHERE id BETWEEN @r MOD 768 AND @r MOD 768 + 5;
UPDATE t SET x = CONCAT(x, CONVERT(CHAR(@i MOD 256) USING latin1)), s = @i MOD 4, k = CONCAT(CONVERT(CHAR(252) USING latin1), id + 1000) WHERE id BETWEEN @s MOD 768 AND @s MOD 768 + 5;
INSERT INTO t (id, v, k) VALUES (@n, _latin1 X'8000FF5C27', @n);
DELETE FROM t WHERE id = @s MOD 768;
-- @after
INSERT INTO t (id, v, k) VALUES (@n, _utf8mb4 X'F09F9880', @n);
UPDATE t SET c = _utf8mb4 X'F09F9880' WHERE id BETWEEN @r MOD 768 AND @r MOD 768 + 5;
