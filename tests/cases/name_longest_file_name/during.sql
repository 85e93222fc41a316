-- @writer
UPDATE `表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表` SET v = v + 1 WHERE id BETWEEN @r MOD 700 AND @r MOD 700 + 9;
INSERT INTO `表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表表` (id, v) VALUES (@n, 1);
