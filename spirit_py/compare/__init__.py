"""Two tables compared on their own: ``spirit-py checksum``, on the checksum of a migration.

``options`` is what was asked for, ``matching`` pairs the columns, ``checks`` refuses what cannot
be compared or repaired, ``entry`` runs it, ``copyback`` repairs between two servers, ``report``
says what was found.
"""
