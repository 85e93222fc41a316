SELECT t.id FROM t LEFT JOIN audit a ON a.t_id = t.id GROUP BY t.id, t.amount2 HAVING t.id < 601 AND COUNT(a.t_id) <> t.amount2 - t.id;
