-- @writer
-- @allow 1062
UPDATE `odd ``table`` %s "name" \'x\'; -- é` SET `a``b` = -`a``b`, `{curly} $dollar` = @i WHERE `id %d` = 1 + @r MOD 700;
UPDATE `odd ``table`` %s "name" \'x\'; -- é` SET `日本 列` = NULL, `key` = 5 + @i WHERE `id %d` BETWEEN @s MOD 700 AND @s MOD 700 + 5;
INSERT INTO `odd ``table`` %s "name" \'x\'; -- é` (`id %d`, `a``b`) VALUES (@n, @n);
DELETE FROM `odd ``table`` %s "name" \'x\'; -- é` WHERE `id %d` = 1 + @s MOD 700;
