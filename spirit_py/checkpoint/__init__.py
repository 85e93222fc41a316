"""The row beside a migration that says whose it is and how far it came."""
