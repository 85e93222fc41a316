"""One server's binlog as a stream of events: connection, parser, positions, row codec.

``connection`` is the only doorway to mysql-replication; ``reader`` reads and reconnects;
``parser`` turns packets into ``events``; ``source`` is the whole as a ``stream``. ``statements``
and ``writes`` judge what the binlog holds as text. ``codec`` decodes row images.
"""
