ADD COLUMN note VARCHAR(20) NOT NULL DEFAULT 'none' AFTER name, ADD KEY amount (amount)
