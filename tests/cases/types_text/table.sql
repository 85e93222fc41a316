CREATE TABLE t (
  id INT NOT NULL PRIMARY KEY,
  c0 CHAR(0), c CHAR(30), c255 CHAR(255), v0 VARCHAR(0), v VARCHAR(200), vbig VARCHAR(3000),
  tt TINYTEXT, tx TEXT, mt MEDIUMTEXT, lt LONGTEXT, nv NATIONAL VARCHAR(20), nn TEXT NOT NULL
) DEFAULT CHARSET utf8mb4;
INSERT INTO t
  WITH RECURSIVE n (i, s) AS (SELECT 1, CAST('' AS CHAR(100)) UNION ALL SELECT i + 1,
    ELT(1 + i MOD 9, '', ' ', 'trailing  ', 'quote '' and " and \\ back', 'nul \0 in \n it \r \t \Z', 'héllo wörld ñ', '日本語 テキスト', '😀🎉 four bytes', NULL) FROM n WHERE i < 700)
  SELECT i, IF(i % 2, '', NULL), s, REPEAT(s, 5), IF(i % 2, '', NULL), s, REPEAT(s, 6), s, REPEAT(s, 7), REPEAT(s, 8), REPEAT(s, 9), IF(i % 2, 'ﬁ', NULL), COALESCE(s, '') FROM n;
