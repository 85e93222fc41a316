SELECT * FROM `a_table_with_a_name_that_is_as_long_as_the_server_lets_any_be_é` WHERE v <> 0 AND v <> `a ``b` + 1;
SELECT `NEW` FROM `a_table_with_a_name_that_is_as_long_as_the_server_lets_any_be_é` t LEFT JOIN audit a ON a.id = t.`NEW` WHERE t.`NEW` > 600 GROUP BY `NEW` HAVING COUNT(a.id) <> 1;
