"""The checkpoint table beside each migrated table: its rows, and what a resume does with them.

``codec``, ``record`` and ``live`` have the rows, ``table``, ``proofs`` and ``writer`` read and
write them, ``queue`` has operators' requests. ``examination`` asks the server what an earlier run
left, ``decision`` decides about it, ``drop`` ends what is proven to be the program's.
"""
