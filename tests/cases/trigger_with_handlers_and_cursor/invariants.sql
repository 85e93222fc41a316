SELECT t.id, v, times FROM t LEFT JOIN seen ON t_id = id WHERE v <> COALESCE(times, 0);
SELECT id, v, text FROM t WHERE v <> 0 AND text <> CONCAT('a;', v, 'b''--', v, 'c/*', v);
