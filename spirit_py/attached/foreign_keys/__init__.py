"""Foreign keys of a table and to it: read, judged, and written as SQL."""
