ADD UNIQUE KEY one_code (code)
