"""The checkpoint table beside each migrated table: its rows, and what a resume does with them."""
