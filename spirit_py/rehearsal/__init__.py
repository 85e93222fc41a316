"""What a migration costs the server, measured while a dry run makes it.

::

    rehearsal = Rehearsal(connection, replicas=("db2:3306",), stop=switch)
    rehearsal.start()                      before the new table is made
    rehearsal.note_lock("snapshot", 3.1)   after a lock of ours, from any thread
    rehearsal.measure_tables(pairs)        while the new tables are still there
    figures = rehearsal.stop()             RehearsalFigures

``figures`` is the result, ``binlog`` and ``lag`` are the pure rules, ``replica`` asks one
replica, ``rehearsal`` has the thread that asks all of them every few seconds.
"""
