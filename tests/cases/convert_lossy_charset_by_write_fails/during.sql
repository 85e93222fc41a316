-- @writer
INSERT INTO t (id, v) VALUES (@n, 'ü');
UPDATE t SET v = CONCAT('é', @i) WHERE id = @r MOD 500;
-- @meanwhile
INSERT INTO t (id, v) VALUES (500000, '😀');
