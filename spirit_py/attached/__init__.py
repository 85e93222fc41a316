"""Carry along what RENAME does not move as a native ALTER does: foreign keys and triggers.

Each cut-over notes them in the checkpoint table, locks the tables, proves that nothing changed, and
sends copies, RENAME and drops in one packet (:mod:`~spirit_py.attached.sequence`). The server
executes a packet to its end although this process dies; what a KILL or a crash leaves half-way is
settled (:mod:`~spirit_py.attached.settle`). Every statement takes 2 to 6 ms of the lock.
"""
