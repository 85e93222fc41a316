ADD COLUMN `table` INT, RENAME INDEX `primary key` TO `index`
