"""Is the copy right? Compares source and new table over one snapshot, and repairs."""
