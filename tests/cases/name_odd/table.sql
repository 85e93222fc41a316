CREATE TABLE `odd ``table`` %s "name" \'x\'; -- é` (`id %d` INT NOT NULL, `a``b` INT, `sel"ect` VARCHAR(20), `{curly} $dollar` INT, `日本 列` INT, `key` INT, PRIMARY KEY (`id %d`), UNIQUE KEY `odd ``key` (`a``b`));
INSERT INTO `odd ``table`` %s "name" \'x\'; -- é` WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 700) SELECT i, i, CONCAT('s%s', i), i, i, i FROM n;
