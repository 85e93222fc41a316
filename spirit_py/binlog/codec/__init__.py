"""Row images of the binlog, decoded byte for byte into SQL literals and comparable keys (R9)."""
