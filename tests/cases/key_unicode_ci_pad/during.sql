-- @writer
-- @allow 1062
UPDATE t SET k = CONCAT(REPLACE(TRIM(k), 'ß', 'SS'), '  ') WHERE v BETWEEN @r MOD 800 AND @r MOD 800 + 4;
UPDATE t SET k = UPPER(RTRIM(k)) WHERE v = @s MOD 800;
DELETE FROM t WHERE k = CONCAT('STRASSE', 4 * (@r MOD 200), ' ');
INSERT INTO t (k, v) VALUES (CONCAT('strasse', 4 * (@s MOD 200)), 4 * (@s MOD 200));
INSERT INTO t (k, v) VALUES (CONCAT('new ', @n), 1);
