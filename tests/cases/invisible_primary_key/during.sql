-- @writer
UPDATE t SET v = v + 1 WHERE my_row_id BETWEEN @r MOD 800 AND @r MOD 800 + 9;
INSERT INTO t (v) VALUES (@i);
DELETE FROM t WHERE my_row_id = 1 + @s MOD 800;
