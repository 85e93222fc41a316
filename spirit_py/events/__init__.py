"""Things that happen in a run: a class each, with a stable name, typed fields and a line (pure).

Names and fields (``docs/events.md``) are only ever added. Unknown values are None; durations are
seconds where the name does not end in ``_ms``.
"""
