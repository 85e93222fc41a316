SELECT made FROM t WHERE id < 800 AND MICROSECOND(made) = 0 LIMIT 1;
SELECT COUNT(*) FROM t WHERE id < 800 HAVING COUNT(DISTINCT exact, stamp, utc, clock, seconds) > 1;
SELECT made, exact FROM t WHERE id < 800 AND made <> exact LIMIT 1;
SELECT doc FROM t WHERE id < 800 AND CONCAT(JSON_TYPE(doc->'$.at'), JSON_TYPE(doc->'$.n')) <> 'STRINGINTEGER' LIMIT 1;
