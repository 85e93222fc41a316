"""The checksum: compares source and new table in one snapshot, and repairs differences."""
