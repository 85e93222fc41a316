CREATE TABLE t (id INT NOT NULL PRIMARY KEY, j JSON, mail VARCHAR(50) COLLATE utf8mb4_0900_ai_ci AS (j->>'$.mail') VIRTUAL, hidden INT INVISIBLE DEFAULT 5, UNIQUE KEY mail (mail));
INSERT INTO t (id, j, hidden) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 700) SELECT i, IF(i MOD 5, JSON_OBJECT('mail', CONCAT('m', i, '@x')), '{}'), i FROM n;
