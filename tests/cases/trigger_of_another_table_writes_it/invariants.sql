SELECT t.id, n FROM t LEFT JOIN orders o ON o.t_id = t.id GROUP BY t.id, n HAVING COUNT(o.id) <> n;
