"""From events to the applier: what waits, what may be dropped, what is safe to resume from.

``dispatch`` takes events out of the ``store``; ``subscription``, ``buffer`` and ``partitions``
hold a table's changes; ``weigher`` asks the server for the weights of text keys; ``flusher`` and
``apply`` hand the changes to the applier; ``ledger`` keeps the safe position. docs/change-feed.md
follows one changed row through all of them.
"""
