-- @writer
-- No write touches the tenth rows: the harness holds one of them, so that a chunk stops between its
-- reading and its writing; all others change and come back meanwhile.
UPDATE t SET v = v + 1, w = CONCAT('round ', @i) WHERE id MOD 10 IN (1, 2, 3, 4);
DELETE FROM t WHERE id MOD 10 = 5 + @i MOD 2;
INSERT INTO t SELECT id + 5 + @i MOD 2, @i, 'again' FROM (SELECT id FROM t WHERE id MOD 10 = 0 UNION SELECT 0) AS tens WHERE id < 600;
-- @after
UPDATE t SET v = v + 1, x = @i WHERE id MOD 10 IN (1, 2, 3, 4);
