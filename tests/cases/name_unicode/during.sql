-- @writer
UPDATE `日本語のテーブル名はとても長くなることがあるのでこれも試してみますさらにもう少し名前` SET `値` = `値` + 1 WHERE id BETWEEN @r MOD 700 AND @r MOD 700 + 9;
DELETE FROM `日本語のテーブル名はとても長くなることがあるのでこれも試してみますさらにもう少し名前` WHERE id = 1 + @s MOD 700;
-- @after
INSERT INTO `日本語のテーブル名はとても長くなることがあるのでこれも試してみますさらにもう少し名前` (id, `価値`) VALUES (@n, 1);
