-- @changes t audit
REPLACE INTO t (id, u, v) VALUES (1, 1, 5);
-- @changes t audit
INSERT INTO t (id, u, v) VALUES (1, 1, 5) ON DUPLICATE KEY UPDATE v = 6;
