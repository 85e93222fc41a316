CREATE TABLE `a_table_with_a_name_that_is_as_long_as_the_server_lets_any_be_é` (`NEW` INT NOT NULL PRIMARY KEY, `a ``b` INT NOT NULL, v INT NOT NULL DEFAULT 0);
CREATE TABLE audit (id INT NOT NULL);
INSERT INTO `a_table_with_a_name_that_is_as_long_as_the_server_lets_any_be_é` (`NEW`, `a ``b`) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600) SELECT i, 0 FROM n;
CREATE TRIGGER tr BEFORE UPDATE ON `a_table_with_a_name_that_is_as_long_as_the_server_lets_any_be_é` FOR EACH ROW SET NEW.v = NEW.`a ``b` + 1;
CREATE TRIGGER tr2 AFTER INSERT ON `a_table_with_a_name_that_is_as_long_as_the_server_lets_any_be_é` FOR EACH ROW INSERT INTO audit VALUES (NEW.`NEW`);
