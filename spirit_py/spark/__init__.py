"""What copier and checksum share of Spark: the session, waves of tasks, gangs of tasks."""
