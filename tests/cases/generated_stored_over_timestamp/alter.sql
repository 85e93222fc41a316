MODIFY v BIGINT, ADD COLUMN next_day DATE AS (DATE(ts + INTERVAL 1 DAY)) STORED, ADD KEY next_day (next_day), ADD KEY minutes ((MINUTE(made)))
