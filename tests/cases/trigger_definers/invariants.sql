SELECT * FROM who WHERE definer <> CASE name WHEN 'one' THEN 'a@localhost' WHEN 'two' THEN '`"b@%' ELSE definer END;
SELECT t_id FROM who GROUP BY t_id HAVING SUM(name = 'one') <> SUM(name = 'two');
