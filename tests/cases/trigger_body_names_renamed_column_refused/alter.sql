RENAME COLUMN amount TO total
