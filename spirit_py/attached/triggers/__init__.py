"""Triggers of a table that is swapped: read, judged, and carried over to the table in its place.

A trigger's name is unique in its schema, so the new table gets each trigger twice::

    before the RENAME   CREATE TRIGGER temporary ON _t_new    the body behind a gate; never fires
    RENAME              the temporary triggers act on t now
    then, one by one    DROP TRIGGER name                     it is on _t_old
                        CREATE TRIGGER name ON t FOLLOWS temporary
                        DROP TRIGGER temporary

All of it is sent in one packet under the lock. The gate decides what a write meets where a killed
session left it half-way: see :func:`spirit_py.attached.triggers.statements.gate`.
"""
