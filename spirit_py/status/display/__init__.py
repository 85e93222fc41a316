"""The live display: one screen that answers how far, how fast, how safe, and what it waits for.

One thread (``display``) writes to the terminal, and others only queue: a slow or stopped terminal
never delays a migration.
"""
