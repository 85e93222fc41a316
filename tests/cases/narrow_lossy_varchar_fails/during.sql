-- @writer
UPDATE t SET title = 'ten chars.' WHERE id = 10 + @r MOD 600;
INSERT INTO t (id, title) VALUES (@n, 'x');
