"""The live display: one thread writes to the terminal, so that a slow one delays no migration."""
