"""Things that happen in a run: a class each, with a stable name, typed fields and a line (pure).

Only ever added: ``docs/events.md``. Unknown values are None; seconds where no ``_ms`` ends a name.
"""
