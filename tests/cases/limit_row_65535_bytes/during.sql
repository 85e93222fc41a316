-- @writer
-- @session SET NAMES latin1
UPDATE t SET a = REPEAT(CHAR(39), 29990 + @i MOD 10), v = v + 1 WHERE id = 1 + @r MOD 150;
UPDATE t SET b = REPEAT(CHAR(0), 30000), c = REPEAT('d', 5516) WHERE id = 1 + @s MOD 150;
INSERT INTO t (id, v, a, b, c) VALUES (1000 + @n, @r, REPEAT('x', 30000), REPEAT(X'5C', 30000), 'y');
DELETE FROM t WHERE id >= 1000 AND v MOD 3 = @i MOD 3;
DELETE FROM t WHERE id = 1 + @s MOD 150;
