-- @writer
UPDATE t SET g = ELT(1 + @i MOD 3, ST_GeomFromText('POINT(3 4)', 4326), ST_GeomFromText('GEOMETRYCOLLECTION EMPTY'), NULL), p = ST_GeomFromText(CONCAT('POINT(', -(@i MOD 90), ' ', @i MOD 180, ')'), 4326) WHERE id BETWEEN @r MOD 500 AND @r MOD 500 + 5;
UPDATE t SET l = NULL, ml = ST_GeomFromText('MULTILINESTRING((0 0, 1.5 1))'), p0 = ST_GeomFromText(CONCAT('POINT(', @r, ' ', -@s, ')')) WHERE id BETWEEN @s MOD 500 AND @s MOD 500 + 5;
INSERT INTO t (id, p, p0, g) VALUES (@n, ST_GeomFromText('POINT(89 179)', 4326), ST_GeomFromText('POINT(1 1)'), NULL);
DELETE FROM t WHERE id = 1 + @s MOD 500;
