-- @writer
-- @allow 1451 1452
INSERT INTO t (id, code, v) VALUES (@n, CONCAT('new ', @n), 0);
INSERT INTO child VALUES (@n, CONCAT('NEW ', @n));
UPDATE t SET code = CONCAT('moved ', @n) WHERE id = @n;
UPDATE t SET code = CONCAT('old ', @n) WHERE id = 1 + @r MOD 300;
DELETE FROM t WHERE id = 301 + @s MOD 300;
