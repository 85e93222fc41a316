-- @writer
UPDATE t SET c = ELT(1 + @i MOD 8, '', ' ', 'trailing  ', 'q'' " \\', 'nul \0 \n', 'hé', '😀', NULL), v = ELT(1 + @i MOD 8, '', ' ', 'trailing  ', 'q'' " \\', 'nul \0 \n', 'hé', '😀', NULL), c0 = ELT(1 + @i MOD 2, '', NULL) WHERE id BETWEEN @r MOD 700 AND @r MOD 700 + 5;
UPDATE t SET tt = ELT(1 + @i MOD 4, '', REPEAT('x', 255), REPEAT('é', 127), NULL), tx = REPEAT(ELT(1 + @i MOD 4, 'ä', '日', '😀', '%s %d \\'), 1000 + @i), mt = NULL WHERE id BETWEEN @s MOD 700 AND @s MOD 700 + 2;
UPDATE t SET lt = CONCAT(COALESCE(lt, ''), '+'), vbig = REPEAT('😀', 750), nn = CONCAT(nn, '\0') WHERE id BETWEEN @s MOD 700 AND @s MOD 700 + 3;
INSERT INTO t (id, v, nn, nv) VALUES (@n, CONCAT('new ', @i), 'ZZ', 'ﬁ');
DELETE FROM t WHERE id = 1 + @s MOD 700;
