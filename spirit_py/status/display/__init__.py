"""The live display: one screen that answers how far, how fast, how safe, and what it waits for.

    snapshot ── layout ──▶ lines ── cells, painter ──▶ what changed, as escape sequences
    events, log lines, prints of others ─────────────▶ above the panel, into the scrollback

One thread (``display``) writes to the terminal, and others only queue: a terminal that is slow, or
stopped with Ctrl-S, never delays a migration.
"""
