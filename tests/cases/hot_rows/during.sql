-- @writer
-- @allow 1062
UPDATE t SET a = a + 1 WHERE id = 300;
DELETE FROM t WHERE id = 301;
INSERT INTO t (id, a, b, u) VALUES (301, @i, 'back', 301);
UPDATE t SET id = IF(id = 302, 10302, 302) WHERE id IN (302, 10302);
-- @writer
-- @allow 1062
BEGIN;
DELETE FROM t WHERE id IN (10, 20, 30);
INSERT INTO t (id, a, b, u) VALUES (10, @i, 'x', 20), (20, @i, 'y', 30), (30, @i, 'z', 10);
COMMIT;
BEGIN;
UPDATE t SET a = 0 WHERE id < 100;
ROLLBACK;
REPLACE INTO t (id, a, b, u) VALUES (300, @i, 'replaced', 300), (599, @i, 'replaced', 599);
