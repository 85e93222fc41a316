-- @changes largest
INSERT INTO t (id, v) VALUES (-1, 1000000000);
