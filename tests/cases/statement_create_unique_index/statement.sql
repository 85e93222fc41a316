CREATE UNIQUE INDEX ua ON {table} (a, id)
