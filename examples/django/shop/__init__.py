"""A shop with a table that grows large."""
