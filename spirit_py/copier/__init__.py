"""The rows that exist already, copied inside the server by statements that Spark spreads."""
