"""Values of rows: duplicates, values that would be lost, and defaults computed once."""
