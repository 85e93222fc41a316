"""The swap of a migration, with what may hold it back and what it leaves (R25)."""
