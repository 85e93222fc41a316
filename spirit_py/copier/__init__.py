"""The copy of the existing rows, by statements inside the server that Spark distributes."""
