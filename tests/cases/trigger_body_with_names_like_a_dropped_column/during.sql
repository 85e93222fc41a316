-- @writer
-- @allow 1062
UPDATE t SET amount2 = amount2 + 1 WHERE id = 1 + @r MOD 600;
INSERT INTO t (id, amount, amount2) VALUES (@n, 1, 2);
-- @after
UPDATE t SET amount2 = amount2 + 1 WHERE id = 1 + @r MOD 600;
INSERT INTO t (id, amount2) VALUES (@n, 2);
