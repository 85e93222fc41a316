"""What is attached to a table, and does not follow it when RENAME swaps another table in."""
