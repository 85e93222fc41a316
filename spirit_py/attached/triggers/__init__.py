"""Triggers of a table that is swapped: read, judged, and carried over to the table in its place.

A trigger's name is unique in its schema. So each is created on ``_t_new`` under a temporary name
behind a gate (:func:`spirit_py.attached.triggers.statements.gate`). After the RENAME the original
is dropped and created on ``t`` FOLLOWS the temporary one, which is dropped. All in one packet.
"""
