ADD COLUMN x INT, ADD UNIQUE KEY both_of_them (v, slot)
