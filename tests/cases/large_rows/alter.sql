MODIFY small BIGINT NOT NULL, ADD KEY small (small)
