SELECT * FROM largest WHERE v <> 0 AND v <> (SELECT MAX(v) FROM t);
