"""The checks, one a file; a new file with a ``check`` needs a line in the registry."""
