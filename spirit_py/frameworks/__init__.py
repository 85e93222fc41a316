"""Migration frameworks that change large tables through this program.

``alembic`` and ``django`` each need the extra of that name; nothing else imports them.
"""
