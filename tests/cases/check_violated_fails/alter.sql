ADD CONSTRAINT never_negative CHECK (a >= 0)
