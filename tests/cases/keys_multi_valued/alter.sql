ADD KEY mv (z, (CAST(d->'$.tags' AS UNSIGNED ARRAY))), ADD KEY mv2 ((CAST(d->'$.names' AS CHAR(20) ARRAY)))
