"""TLS of every connection, with the modes of the mysql client.

Python's ``ssl`` alone decides whether a certificate is right. The binlog's connection uses it
directly. The driver's library is MariaDB Connector/C on most machines. It has no VERIFY_CA: it
compares the host name too, except that from 3.4 on it compares none on local addresses, and checks
no certificate at all where the host name is not to be compared. Its REQUIRED does not require TLS
(:mod:`spirit_py.mysql.tls.driver`). Therefore it is given the fingerprint of the certificate that
Python has seen and checked in a handshake of its own at the same address. It ends every connection
on which the server shows another one, or offers no TLS, before it names the user. The fingerprint
is that of the certificate whose key the server proves to have: who stands between may repeat the
certificate, but completes no handshake with it.
"""
