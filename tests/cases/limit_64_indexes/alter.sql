MODIFY v BIGINT, ADD UNIQUE KEY u (v, id, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14), DROP KEY k3, ADD KEY k3 (c3 DESC)
