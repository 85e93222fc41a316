"""TLS of every connection, with the modes of the mysql client.

Python's ``ssl`` alone decides whether a certificate is right. MariaDB Connector/C has no VERIFY_CA,
and its REQUIRED does not require TLS. So it gets the fingerprint of the certificate that Python has
checked in a handshake of its own, and ends every connection that shows another one.
"""
