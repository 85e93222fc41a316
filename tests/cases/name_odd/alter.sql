ADD COLUMN `new %s ``col` INT DEFAULT 4, RENAME COLUMN `sel"ect` TO `from`, MODIFY `日本 列` BIGINT
