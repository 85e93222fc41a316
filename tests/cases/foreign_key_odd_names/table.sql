CREATE TABLE `select ``x` (`order` INT NOT NULL PRIMARY KEY, `a.b` INT NOT NULL, UNIQUE KEY `a, b` (`a.b`));
CREATE TABLE t (id INT NOT NULL PRIMARY KEY, `the ``p` INT, `é;` INT, v INT NOT NULL,
  CONSTRAINT `constraint_with_a_name_of_sixty_four_characters__is_the_longest_` FOREIGN KEY (`the ``p`) REFERENCES `select ``x` (`order`), CONSTRAINT `constraint_with_a_name_of_sixty_four_characters__is_the_longest-` FOREIGN KEY (`é;`) REFERENCES `select ``x` (`a.b`));
CREATE TABLE `child`` of -- t` (id INT NOT NULL PRIMARY KEY, `t``id` INT, CONSTRAINT `FOREIGN KEY (x) REFERENCES ``t`` (x)` FOREIGN KEY (`t``id`) REFERENCES t (id) ON DELETE CASCADE);
INSERT INTO `select ``x` WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) SELECT i, i FROM n;
INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600) SELECT i, 1 + i MOD 300, 1 + i MOD 300, 0 FROM n;
INSERT INTO `child`` of -- t` WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) SELECT i, i FROM n;
