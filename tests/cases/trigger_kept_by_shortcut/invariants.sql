SELECT t.id, v FROM t LEFT JOIN audit a ON a.t_id = t.id GROUP BY t.id, v HAVING COUNT(a.t_id) <> v;
