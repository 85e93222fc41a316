-- @writer
-- @allow 1062
UPDATE t SET a = a + 1;
UPDATE t SET k = IF(k = 'only', 'other', 'Only') ORDER BY k DESC LIMIT 1;
DELETE FROM t WHERE @i MOD 3 = 0;
INSERT INTO t VALUES ('only', @i) ON DUPLICATE KEY UPDATE a = a + 1;
-- @after
INSERT INTO t VALUES ('only', @i, NULL) ON DUPLICATE KEY UPDATE a = a + 1;
UPDATE t SET a = a + 1, x = @i;
