"""``spirit-py checksum``: compares any two tables, with the checksum of a migration.

``column_matching`` pairs the columns, ``checks`` refuses what cannot be compared or repaired,
``run`` compares them, ``copyback`` repairs between two servers, ``report`` has the result.
"""
