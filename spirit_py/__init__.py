"""Online schema migration for MySQL: copy on Spark, change feed, checksum, cutover."""

__version__ = "0.1.0"
