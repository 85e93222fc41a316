-- @writer
-- @allow 1062
REPLACE INTO t (d, id, ts) VALUES ('2021-05-05', 1 + @r MOD 900, '2020-01-01');
INSERT INTO t (d, id, ts) VALUES ('2019-05-05', 1000 + @n, '2021-01-01');
DELETE FROM t WHERE id = 1 + @s MOD 900;
-- @writer
-- @meanwhile
SET SESSION sql_mode = '', time_zone = '+00:00';
UPDATE IGNORE t SET d = '0000-00-00', ts = '2020-01-01' WHERE id BETWEEN 100 AND 300;
UPDATE IGNORE t SET d = '2020-05-00', ts = 0 WHERE id BETWEEN 200 AND 400;
INSERT INTO t (d, id) VALUES ('2020-00-01', 950), ('0000-00-00', 951);
