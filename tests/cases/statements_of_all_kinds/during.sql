-- @writer
-- @allow 1062
INSERT INTO t (a, b) SELECT a, 'copied' FROM t WHERE id BETWEEN @r MOD 800 AND @r MOD 800 + 3;
REPLACE INTO t (a, b, u) VALUES (@i, 'replaced', CONCAT('U', @s MOD 800));
INSERT IGNORE INTO t (a, b, u) VALUES (@i, 'ignored', CONCAT('u', @r MOD 800)), (@i, 'new', CONCAT('n', @n));
INSERT INTO t (id, a, u) VALUES (1 + @r MOD 800, 0, CONCAT('u', @s MOD 800)) ON DUPLICATE KEY UPDATE a = a + 1, b = 'odku';
UPDATE t JOIN other USING (id) SET t.a = other.a * 2, other.a = other.a + 1 WHERE t.id BETWEEN @s MOD 800 AND @s MOD 800 + 5;
DELETE t FROM t JOIN other USING (id) WHERE other.id = 1 + @s MOD 800;
UPDATE t SET a = a + 1, b = NULL ORDER BY id DESC LIMIT 5;
DELETE FROM t WHERE b = 'copied' ORDER BY id LIMIT 3;
