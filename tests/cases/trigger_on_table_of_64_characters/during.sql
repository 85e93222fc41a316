-- @writer
UPDATE `a_table_with_a_name_that_is_as_long_as_the_server_lets_any_be_é` SET `a ``b` = `a ``b` + 1 WHERE `NEW` = 1 + @r MOD 600;
INSERT INTO `a_table_with_a_name_that_is_as_long_as_the_server_lets_any_be_é` (`NEW`, `a ``b`) VALUES (@n, 0);
