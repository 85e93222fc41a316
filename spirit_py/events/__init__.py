"""Things that happen in a run: a class each, with a stable name, typed fields and a line (pure).

Displays, logs, the timeline and hooks go by an event's class and fields, never by its text.
``docs/events.md`` is the page for those who write alerts and pipelines; a test holds it against the
classes. A name is ``object.what_happened``. Names and fields are only ever added. A field whose
value is not known is None, never zero. Durations are seconds where the name does not say ``_ms``.
"""
