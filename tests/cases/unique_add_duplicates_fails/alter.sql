ADD UNIQUE KEY one_email (email)
