CREATE TABLE t (s SET('','q','r') NOT NULL PRIMARY KEY, v INT);
INSERT INTO t VALUES (0, 0), (1, 1), (2, 2), (3, 3), (4, 4);
