"""What copier and checksum share of Spark: the runtime, and gangs of tasks."""
