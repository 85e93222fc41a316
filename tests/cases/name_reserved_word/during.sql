-- @writer
UPDATE `select` SET `group` = `group` + 1, `values` = NULL WHERE `order` BETWEEN @r MOD 700 AND @r MOD 700 + 9;
INSERT INTO `select` (`order`, `new`) VALUES (@n, 'n');
DELETE FROM `select` WHERE `order` = 1 + @s MOD 700;
