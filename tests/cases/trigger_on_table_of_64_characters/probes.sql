-- @changes audit
INSERT INTO `a_table_with_a_name_that_is_as_long_as_the_server_lets_any_be_é` (`NEW`, `a ``b`) VALUES (-1, 0);
