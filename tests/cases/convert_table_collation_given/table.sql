SET NAMES utf8mb4;
CREATE TABLE t (
  id INT NOT NULL PRIMARY KEY, v INT, s VARCHAR(20) NOT NULL DEFAULT 'é', c CHAR(10) CHARACTER SET latin1 COLLATE latin1_german1_ci DEFAULT 'ß', x TEXT, m MEDIUMTEXT, e ENUM('a', 'b') DEFAULT 'a', st SET('o', 'y'),
  b VARCHAR(20) CHARACTER SET binary, j JSON, u VARCHAR(64) CHARACTER SET ascii,
  g VARCHAR(60) AS (CONCAT(s, '-', UPPER(c))) STORED, gv VARCHAR(60) AS (LOWER(s)) VIRTUAL, n INT AS (LENGTH(s)) STORED, nc INT AS (CHAR_LENGTH(c)) VIRTUAL,
  KEY g (g), KEY gv (gv), KEY f ((CONCAT(LOWER(c), 'x'))), KEY x (x(10)), UNIQUE KEY su (s, id), CONSTRAINT ck CHECK (CHAR_LENGTH(s) < 100)
) CHARSET=latin1;
INSERT INTO t (id, v, s, c, x, m, b, j, u)
  WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 700)
  SELECT i, i, CONCAT('né', i), CONCAT('ü', i MOD 7), REPEAT('é', i MOD 50), 'm', X'FF00', JSON_OBJECT('k', i), 'u' FROM n;
