"""Throttling: what holds the work back so that the server's other users hardly notice it.

A *throttler* looks at one thing (a replica, the server's load, the clock) and returns a reason to
wait, or none. Several of them may have one at a time: the work waits until none has, and all are
shown. A throttler that cannot look is a reason itself, after a grace: it fails closed.

Work meets this package through :mod:`spirit_py.pace`. What runs is not interrupted: nothing new
begins while there is a reason. So a piece of work is short, apart from an ``ADD INDEX``.
"""
