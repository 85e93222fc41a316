"""Throttling: what holds the work back so that the server's other users hardly notice it.

==============  ===================================================================
settings        what the operator asked for, and may change while it runs
throttler       the interface of one throttler
watched         one throttler, looked at in a thread of its own
throttles       all throttlers together: the pace that the work asks for
backlog         the change feed has no room: it goes before the copy (R19)
adaptive        how much the work may take of a server that others use
latency         the probe: how long a commit takes, and what the others do
lag             how far replicas are behind
windows         times of the day: ``--allow``
http, query     what other systems say: ``--throttle-http``, ``--throttle-query``
disk, innodb    disk space, the history, the redo log
load            ``--max-load`` and ``--critical-load``
own_session     a throttler's session, opened again after a fault
==============  ===================================================================

A *throttler* looks at one thing (a replica, the server's load, the clock) and returns a reason to
wait, or none. Several of them may have one at a time: the work waits until none has, and all are
shown. A throttler that cannot look is a reason itself, after a grace: it fails closed.

Work meets this package through :mod:`spirit_py.pace`. What runs is not interrupted: nothing new
begins while there is a reason. So a piece of work is short, apart from an ``ADD INDEX``.
"""
