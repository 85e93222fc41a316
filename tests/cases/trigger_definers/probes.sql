-- @changes who
UPDATE t SET v = 0 WHERE id = (SELECT * FROM (SELECT MIN(id) FROM t) m);
-- @changes who
DELETE FROM t WHERE v = 0;
