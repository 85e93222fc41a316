ADD COLUMN up VARCHAR(50) AS (UPPER(full_name)) VIRTUAL, MODIFY full_name VARCHAR(60) AS (CONCAT_WS(', ', last, first)) STORED, ADD KEY up (up)
