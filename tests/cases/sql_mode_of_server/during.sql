-- @writer
-- @session SET sql_mode = ''
UPDATE t SET c = ' x ', v = 'it''s \\ "q"' WHERE id BETWEEN @r MOD 700 AND @r MOD 700 + 5;
INSERT INTO t (id, c, v) VALUES (@n, '', '\\');
DELETE FROM t WHERE id = 1 + @s MOD 700;
