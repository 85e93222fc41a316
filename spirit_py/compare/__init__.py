"""``spirit-py checksum``: compares any two tables, with the checksum of a migration."""
