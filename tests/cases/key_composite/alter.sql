ADD COLUMN x INT, MODIFY tenant BIGINT NOT NULL, ADD KEY day (day, name(5))
