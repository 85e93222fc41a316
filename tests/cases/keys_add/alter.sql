ADD KEY a (a DESC, b(7)), ADD INDEX c (c(20)) COMMENT 'it''s', ADD KEY hidden (b) INVISIBLE, ADD FULLTEXT KEY ft (c), ADD KEY fn ((LOWER(b)), (a + 1)), ADD KEY e (e(10)) USING BTREE
