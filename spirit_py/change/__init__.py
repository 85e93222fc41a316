"""Row changes that happen while the copy runs: read from the binlog, applied to the new tables."""
