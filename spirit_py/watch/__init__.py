"""``spirit-py watch``: the change feed's stream as lines of JSON, on its own.

``entry`` is called by the command line; ``stream`` reads the binlog of all tables in a
``scope`` and asks ``definitions`` for their columns; ``follower`` turns its events into the
records of ``model``, with the position that ``progress`` says is safe; ``output`` writes them.
"""
