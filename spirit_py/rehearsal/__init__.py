"""The rehearsal: measures what a migration costs the server, during a dry run.

::

    rehearsal = Rehearsal(connection, replicas=("db2:3306",), stop=switch)
    rehearsal.start()                      before the new table is made
    rehearsal.note_lock("snapshot", 3.1)   after a lock of ours, from any thread
    rehearsal.measure_tables(pairs)        while the new tables are still there
    figures = rehearsal.stop()             RehearsalFigures

``figures`` is the result, ``binlog`` and ``lag`` are the pure rules, ``replica`` queries one
replica, ``rehearsal`` has the thread that queries all of them every few seconds.
"""
