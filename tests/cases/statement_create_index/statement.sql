CREATE INDEX `by a` USING BTREE ON {table} (a(10) DESC, (b * 2)) COMMENT 'x'
