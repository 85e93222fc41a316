SELECT p.id, t_rows FROM p LEFT JOIN t ON t.p_id = p.id GROUP BY p.id, t_rows HAVING COUNT(t.id) <> t_rows;
SELECT t.id, v FROM t LEFT JOIN audit a ON a.t_id = t.id GROUP BY t.id, v HAVING COUNT(a.t_id) <> v;
SELECT t.id FROM t LEFT JOIN child c ON c.id = t.id WHERE c.id IS NULL;
