"""TLS of every connection, with the modes of the mysql client."""
