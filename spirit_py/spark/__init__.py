"""What copier and checksum share of Spark: the runtime, waves of tasks, gangs of tasks."""
