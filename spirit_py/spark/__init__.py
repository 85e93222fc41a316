"""Gangs of tasks for copier and checksum, in threads of the driver or on Spark; Spark itself."""
