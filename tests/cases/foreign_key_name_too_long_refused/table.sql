CREATE TABLE parent (id INT NOT NULL PRIMARY KEY);
CREATE TABLE t (id INT NOT NULL PRIMARY KEY, p INT, CONSTRAINT t_ibfk_is_a_name_which_is_almost_sixty_four_characters_long_ FOREIGN KEY (p) REFERENCES parent (id));
INSERT INTO parent (id) VALUES (1);
INSERT INTO t (id, p) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) SELECT i, 1 FROM n;
