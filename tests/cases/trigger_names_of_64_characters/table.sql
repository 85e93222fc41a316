CREATE TABLE t (id INT NOT NULL PRIMARY KEY, v INT NOT NULL, w INT NOT NULL DEFAULT 0);
INSERT INTO t (id, v) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600) SELECT i, 0 FROM n;
CREATE TRIGGER trigger_with_a_name_of_sixty_four_characters_that_is_the_longest BEFORE UPDATE ON t FOR EACH ROW SET NEW.w = NEW.w + 1;
CREATE TRIGGER trigger_with_a_name_of_sixty_four_characters_that_is_the_longes_ BEFORE UPDATE ON t FOR EACH ROW SET NEW.w = NEW.w * 3 MOD 10007;
CREATE TRIGGER `trigger_with_a_name_of_sixty_four_characters_that_is_the_lon ``"é` AFTER UPDATE ON t FOR EACH ROW SET @fired = 1;
CREATE TRIGGER `select` AFTER INSERT ON t FOR EACH ROW SET @fired = 1;
CREATE TRIGGER `_t_new` AFTER DELETE ON t FOR EACH ROW SET @fired = 1;
