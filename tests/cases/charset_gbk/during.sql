-- @writer
-- @allow 1062
UPDATE t SET c = CONVERT(CONCAT(X'BF5C', X'D6D0') USING gbk), v = CONCAT(CONVERT(X'815C' USING gbk), '\'', '\\') WHERE id BETWEEN @r MOD 700 AND @r MOD 700 + 5;
UPDATE t SET x = CONCAT(x, '汉字'), k = CONCAT('改', id) WHERE id BETWEEN @s MOD 700 AND @s MOD 700 + 5;
INSERT INTO t (id, v, k) VALUES (@n, CONVERT(X'FE5C' USING gbk), CONCAT('新', @n));
DELETE FROM t WHERE id = @s MOD 700;
