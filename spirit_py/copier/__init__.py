"""The copy of the existing rows, by resident tasks that send statements to the server."""
