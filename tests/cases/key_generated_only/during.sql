-- @writer
-- @allow 1062 1213
UPDATE t SET v = v + 1 WHERE a BETWEEN @r MOD 200 AND @r MOD 200 + 3;
UPDATE t SET b = b + 10 WHERE a = @s MOD 200;
INSERT INTO t (a, b, v) VALUES (@n, 1, 1);
DELETE FROM t WHERE a = @r MOD 200 AND b = 2;
-- @writer
-- @allow 1062 1213
BEGIN;
UPDATE t SET b = -1 WHERE a = @r MOD 220 AND b = 1;
UPDATE t SET b = 1, v = v + 1 WHERE a = @r MOD 220 AND b = 3;
UPDATE t SET b = 3 WHERE a = @r MOD 220 AND b = -1;
COMMIT;
