SELECT id, v FROM t WHERE v < 0;
