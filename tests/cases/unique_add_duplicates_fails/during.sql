-- @writer
UPDATE t SET email = CONCAT('changed', @n, '@example.com') WHERE id = 10 + @r MOD 600;
INSERT INTO t (id, email) VALUES (@n, NULL);
