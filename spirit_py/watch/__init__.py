"""``spirit-py watch``: the change feed's stream as lines of JSON, on its own.

``command`` is called by the command line; ``source`` reads the binlog of all tables in a
``scope`` and asks ``definitions`` for their columns; ``follower`` turns its events into the
lines of ``records``, with the position that ``progress`` says is safe; ``output`` writes them.
"""
