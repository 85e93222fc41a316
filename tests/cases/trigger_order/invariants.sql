SELECT id, path FROM t WHERE path NOT LIKE '%(caz)' AND path NOT IN ('', '12');
SELECT t_id, path FROM log WHERE path NOT LIKE '%(caz)ZA';
