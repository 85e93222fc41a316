CREATE TABLE `日本語のテーブル名はとても長くなることがあるのでこれも試してみますさらにもう少し名前` (id INT NOT NULL PRIMARY KEY, `値` INT);
INSERT INTO `日本語のテーブル名はとても長くなることがあるのでこれも試してみますさらにもう少し名前` WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 700) SELECT i, i FROM n;
