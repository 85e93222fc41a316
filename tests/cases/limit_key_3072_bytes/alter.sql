MODIFY v BIGINT, ADD KEY va (v, a, b(300))
