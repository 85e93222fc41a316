ADD COLUMN x INT, ADD KEY d (d), ADD KEY dt (dt)
