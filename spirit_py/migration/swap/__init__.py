"""The swap of a migration, with what may hold it back and what it leaves.

::

    deferral      waits until no sentinel, pause, window or hook holds the swap back
    veto          the hook of ``--hook-veto``: asked, overruled, asked again
    same_tables   the tables under the lock are those whose copy was compared (R25)
    attachments   foreign keys and triggers that go along with it
    swap          all tables in one RENAME; what follows it
    old_tables    keeps old tables for their grace or for the operator; drops them gently

The protocol under the lock is :mod:`spirit_py.cutover`, which knows neither sentinels nor hooks.
A revert (:mod:`spirit_py.migration.reverse`) swaps back with the same parts.
"""
