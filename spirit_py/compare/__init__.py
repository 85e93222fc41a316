"""Two tables compared on their own: ``spirit-py checksum``, on the checksum of a migration.

``matching`` pairs the columns, ``checks`` refuses what cannot be compared or repaired, ``run``
compares and judges, ``copyback`` repairs between two servers, ``report`` holds what was found.
"""
