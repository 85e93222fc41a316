"""Things that happen in a run: a class each, with a stable name, typed fields and a line (pure).

One event is shown by a display, written by a log, drawn into a timeline, and handed to a hook: all
of these go by its class and its fields, never by its text. ``docs/events.md`` is the page for those
who write alerts and pipelines; a test holds it against the classes. ::

    event     the base of all, and how they are told
    run       the run as a whole: its beginning, plan, phases, warnings, end
    copy      change feed, copy, throttling, checkpoints, indexes
    checksum  comparison, differences, rows in doubt
    swap      locks, cutover, old tables
    reverse   reverse replication and reverts
    control   what operators asked for
    batch     many tables
    watch     ``spirit-py watch``

A name is ``object.what_happened``. Names and fields are only ever added. A field whose value is
not known is None: never zero. Durations are seconds where the name does not say ``_ms``.
"""
