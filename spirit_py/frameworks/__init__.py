"""Migration frameworks that change large tables through this program.

``alembic`` and ``django`` each need the extra of that name; nothing else imports them. ``policy``
decides which tables go online, ``connecting`` takes server and account from the framework's own
connection, ``online`` runs a change while that connection waits.
"""
