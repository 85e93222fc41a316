-- @writer
-- @session SET NAMES utf8mb4
-- @allow 1062
UPDATE t SET v = v + 1, b = REPEAT('ß', 384) WHERE k LIKE CONCAT(@r MOD 400, 'é%');
UPDATE t SET k = CONCAT(@n, REPEAT('𝄞', 755)) WHERE k LIKE CONCAT(@s MOD 400, 'é%');
INSERT INTO t (k, v) VALUES (CONCAT('n', @n, REPEAT('x', 750)), @n);
DELETE FROM t WHERE k LIKE CONCAT(@r MOD 400, 'é%');
