-- @writer
-- @allow 1062
UPDATE t SET k = IF(BINARY k = BINARY UPPER(k), LOWER(k), UPPER(k)) WHERE v BETWEEN @r MOD 900 AND @r MOD 900 + 4;
UPDATE t SET k = CONCAT('ä', v) WHERE v = @s MOD 900;
DELETE FROM t WHERE k = CONCAT('A', 6 * (@r MOD 150));
INSERT INTO t (k, v) VALUES (CONCAT('á', 6 * (@r MOD 150)), 6 * (@r MOD 150));
INSERT INTO t (k, v) VALUES (CONCAT('new ', @n), 5000 + @i) ON DUPLICATE KEY UPDATE v = v + 1;
DELETE FROM t WHERE v = 1 + @s MOD 900;
-- @writer
-- @allow 1062
REPLACE INTO t (k, v) VALUES (ELT(1 + @i MOD 4, 'Hot', 'hOT', 'HÖT', 'hot'), 9000);
UPDATE t SET k = ELT(1 + @i MOD 3, 'hot', 'HOT', 'hót'), v = v + 1 WHERE k = 'hot';
DELETE FROM t WHERE k = 'HOT';
