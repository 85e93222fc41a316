RENAME COLUMN p_id TO parent, CHANGE code `the code` INT NOT NULL, RENAME COLUMN id TO k
