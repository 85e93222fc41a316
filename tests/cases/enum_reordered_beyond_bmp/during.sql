-- @writer
UPDATE t SET mood = ELT(1 + @i MOD 3, '😀', '😁', 'plain'), tags = ELT(1 + @i MOD 4, '🍎', '🍏', '🍎,🍏', '') WHERE id BETWEEN @r MOD 700 AND @r MOD 700 + 5;
INSERT INTO t (id, mood, tags) VALUES (@n, '😀', '🍎');
DELETE FROM t WHERE id = @s MOD 700;
