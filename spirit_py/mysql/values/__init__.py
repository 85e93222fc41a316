"""Values of rows: which are equal, which would be lost, which are computed once for all."""
