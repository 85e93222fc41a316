SET SESSION sql_mode = '';
CREATE TABLE t (
  id INT NOT NULL PRIMARY KEY,
  e ENUM('a','b','','it''s','comma, and ) paren','ünï','日本','😀') CHARACTER SET utf8mb4,
  e1 ENUM('only') NOT NULL,
  el ENUM('é','ÿ') CHARACTER SET latin1,
  s SET('x','y','z z','ö') CHARACTER SET utf8mb4,
  s64 SET('b0','b1','b2','b3','b4','b5','b6','b7','b8','b9','b10','b11','b12','b13','b14','b15','b16','b17','b18','b19','b20','b21','b22','b23','b24','b25','b26','b27','b28','b29','b30','b31','b32','b33','b34','b35','b36','b37','b38','b39','b40','b41','b42','b43','b44','b45','b46','b47','b48','b49','b50','b51','b52','b53','b54','b55','b56','b57','b58','b59','b60','b61','b62','b63')
);
INSERT INTO t
  WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 800)
  SELECT i, IF(i MOD 10 = 9, NULL, i MOD 9), i MOD 2, IF(i MOD 4 = 3, NULL, i MOD 3), IF(i MOD 17 = 16, NULL, i MOD 16), ELT(1 + i MOD 4, 18446744073709551615, 9223372036854775808, 0, NULL) FROM n;
