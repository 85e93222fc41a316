"""The checksum: compares source and new table row by row, and repairs differences."""
