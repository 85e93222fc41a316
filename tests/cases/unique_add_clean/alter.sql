ADD UNIQUE KEY ua (a), ADD UNIQUE INDEX ub (b, c), ADD UNIQUE KEY uf ((c * 2))
