CREATE TABLE t (
  id INT NOT NULL AUTO_INCREMENT,
  name VARCHAR(40) NOT NULL,
  amount DECIMAL(10,2),
  u INT NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY u (u),
  KEY name (name)
);
SET SESSION cte_max_recursion_depth = 100000;
INSERT INTO t (name, amount, u)
  WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
  SELECT CONCAT('name ', i), IF(i % 7 = 0, NULL, i / 3), i FROM n;
