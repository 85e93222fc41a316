SELECT t_id, SUM(what = 'i') i, SUM(what = 'd') d, MAX(t.id IS NOT NULL) there FROM audit LEFT JOIN t ON t.id = t_id GROUP BY t_id HAVING i - d + (t_id BETWEEN 1 AND 600) <> there;
