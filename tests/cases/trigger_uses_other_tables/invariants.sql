SELECT totals.*, c, s FROM totals JOIN (SELECT COUNT(*) c, SUM(v) s FROM t) found WHERE rows_ <> c OR sum_ <> s;
SELECT totals.*, c FROM {other}.totals JOIN (SELECT COUNT(*) c FROM t) found WHERE rows_ <> c;
