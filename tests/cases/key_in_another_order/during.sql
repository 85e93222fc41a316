-- @writer
-- @allow 1062
UPDATE t SET c = c + 1 WHERE a BETWEEN @r MOD 180 AND @r MOD 180 + 3;
UPDATE t SET c = c + 1, b = UPPER(b) WHERE a = @s MOD 180;
UPDATE t SET a = a + 1000 WHERE a = @r MOD 180 AND b = 'k2';
INSERT INTO t (a, b, c, v) VALUES (@n, 'k1', @r MOD 3, 1);
DELETE FROM t WHERE a = @s MOD 180 AND b = 'k3';
-- @writer
-- @allow 1062
UPDATE t SET c = @i MOD 5 WHERE a >= 1000;
REPLACE INTO t (a, b, c, v) VALUES (@s MOD 180, 'K4', @i, 5);
-- @after
UPDATE t SET c = @i MOD 5 WHERE a >= 1000;
