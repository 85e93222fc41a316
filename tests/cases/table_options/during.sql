-- @writer
UPDATE t SET v = CONCAT(v, 'é'), w = 'ü' WHERE id BETWEEN 5000 + @r MOD 700 AND 5000 + @r MOD 700 + 9;
INSERT INTO t (v) VALUES ('new');
DELETE FROM t WHERE id = 5001 + @s MOD 700;
