"""The rehearsal: measures what a migration costs the server, during a dry run.

::

    rehearsal = Rehearsal(connection, replicas=("db2:3306",), stop=switch)
    rehearsal.start()                      before the new table is made
    rehearsal.note_lock("snapshot", 3.1)   after a lock of ours, from any thread
    rehearsal.measure_tables(pairs)        while the new tables are still there
    figures = rehearsal.stop()             RehearsalFigures

``figures`` is the result, and ``rehearsal`` has the thread that takes samples every few seconds.
Replicas are looked at as :mod:`spirit_py.throttle.lag` does it for every run.
"""
