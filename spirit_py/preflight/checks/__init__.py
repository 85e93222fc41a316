"""The checks, by trade: a new one is a function, and a line in ``CHECKS`` of the registry."""
