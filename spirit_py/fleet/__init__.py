"""A fleet: one change on many servers, in waves, with the truth on the servers.

Each server's part is a batch (:mod:`spirit_py.batch`) in a process of its own, on this machine or
as a task of a Spark cluster: ``process.py`` has both of its ends. ``servers.py`` reads the list,
``planning.py`` looks at all of them before anything is written, ``waves.py`` decides who begins
next, ``coordinator.py`` begins and ends processes, and ``orders.py`` is what ``spirit-py ctl
--fleet`` does.

The coordinator keeps nothing that it cannot read again. A server's record says which of its tables
are done; it outlives the server's part, because after a kill it alone tells a changed server from
one that nobody has begun. When all servers are done, each record is marked as finished, and only
then are they dropped: the same command, after a kill in between, drops the rest and changes
nothing. A named lock on each server keeps a second coordinator away.

A process ends with its coordinator: its standard input closes, which it takes as SIGTERM.
"""
