"""Control while it runs."""
