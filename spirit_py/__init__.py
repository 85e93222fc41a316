"""Online schema migration for MySQL: copy by threads and Spark, change feed, checksum, cutover."""

__version__ = "0.1.0"
