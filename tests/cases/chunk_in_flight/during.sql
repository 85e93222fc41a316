-- @writer
-- The harness holds a chunk at its first row (61, 121, ...), between its reading and its writing, so
-- that row stays as it is. Any other row changes once in a long while: were a change applied before the
-- held chunk has committed, the chunk would cover it with what it had read, and nothing would heal it.
UPDATE t SET v = v + 1 WHERE id MOD 199 = @i MOD 199 AND id MOD 60 <> 1;
UPDATE t SET w = CONCAT('round ', @i) WHERE id MOD 199 = (@i + 70) MOD 199 AND id MOD 60 <> 1;
DELETE FROM t WHERE id MOD 199 = (@i + 140) MOD 199 AND id MOD 60 <> 1;
DO SLEEP(0.01);
-- @after
UPDATE t SET v = v + 1, x = @i WHERE id MOD 60 = 1;
