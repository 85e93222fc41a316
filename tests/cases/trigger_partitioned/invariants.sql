SELECT t.id, t.v FROM t LEFT JOIN moved m ON m.t_id = t.id GROUP BY t.id, t.v HAVING COUNT(m.t_id) <> t.v;
