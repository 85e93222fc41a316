SELECT id, v, seen FROM t WHERE seen <> v + (id NOT BETWEEN 1 AND 600);
SELECT t.id, t.v, COUNT(a.v) FROM t LEFT JOIN audit a ON a.t_id = t.id AND a.what = 'au' GROUP BY t.id, t.v HAVING COUNT(a.v) <> t.v;
SELECT t_id FROM audit WHERE t_id NOT BETWEEN 1 AND 600 GROUP BY t_id HAVING SUM(what = 'bi') <> 1 OR SUM(what = 'ai') <> 1;
SELECT t_id FROM audit LEFT JOIN t ON id = t_id GROUP BY t_id HAVING SUM(what = 'bd') <> (MAX(id) IS NULL) OR SUM(what = 'ad') <> (MAX(id) IS NULL);
