SELECT * FROM audit WHERE text NOT IN (CONCAT(NOT (1 BETWEEN -5 AND 5), 'x'), CONCAT((NOT 1) BETWEEN -5 AND 5, 'x')) AND text NOT LIKE 'a|\\b; %' ESCAPE '|';
SELECT id, v, n FROM t WHERE id NOT BETWEEN 1 AND 600 AND (v <> 'it"s' OR n <> 127);
