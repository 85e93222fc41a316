"""One server's binlog as a stream of events: connection, parser, positions, row codec."""
