"""The checks: a new one is a file with a ``check``, and a line in ``CHECKS`` of the registry."""
