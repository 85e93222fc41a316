-- @writer
UPDATE t SET v = CONCAT('é', @i) WHERE id = @r MOD 500;
INSERT INTO t (id, v) VALUES (@n, 'ä');
