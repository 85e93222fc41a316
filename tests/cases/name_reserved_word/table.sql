CREATE TABLE `select` (`order` INT NOT NULL PRIMARY KEY, `group` INT, `new` VARCHAR(5), `values` INT, KEY `primary key` (`group`));
INSERT INTO `select` WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 700) SELECT i, i, 'v', i FROM n;
