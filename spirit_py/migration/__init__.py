"""The composition root: builds every part of a migration and runs the phases in order.

No SQL worth the name and no loops over rows here.

The way back: for a time after the swap the old table follows the new one.

After the RENAME the application writes to ``t``, which has the new definition, and nobody writes
to ``_t_old``, which holds every row of the moment of the swap. A change feed that begins exactly
behind the RENAME (:attr:`~spirit_py.cutover.plan.CutoverResult.after_rename`) applies what is
written to ``t`` to ``_t_old``, through the migration's mapping turned around. So nothing is
copied, the watermark filters are off, and ``_t_old`` can take the place of ``t`` again at any
time::

    keeping    reverse feed t -> _t_old; the position goes into the checkpoint table
    reverting  drain, checksum t against _t_old until it is clean,
               RENAME TABLE t TO _t_undone, _t_old TO t    under the cutover's lock and proof
    done       _t_undone dropped, or kept for a look

**What the old table cannot hold.** A column that only the new table has is lost on the way back:
said before the keeping begins and before every revert. A value that does not fit the old column
(BIGINT back to INT) or a row that an old UNIQUE key, CHECK or partition refuses ends the way
back, never the application: the new table stays as it is.

**What only the old table has.** A column that the ALTER dropped keeps its values for rows that
still exist, and takes its default in new ones. REPLACE would reset it, so rows are written with
``INSERT ... ON DUPLICATE KEY UPDATE`` of the mapped columns. That is unambiguous only while the
key is the one unique index that a row can meet another row in: with a second one, a unique value
that moved between two rows would update the wrong row. So a dropped column together with a second
unique key of the old table is refused before the start; so is a key of the old table that may hold
two rows of the new one for one, and a dropped NOT NULL column without a default, for which new
rows have no value. A row whose key is changed counts as deleted and new. A row that is missing in
the old table cannot be copied again, because nobody knows what it had there: the revert says so.

**Who keeps it.** The migrating process, for the time that was asked for (:class:`Keeper`). It
holds the table's named lock, polls for a request of ``spirit-py revert`` each second, answers it
in the same table while its asker waits, and writes the position every 50 s. When its process is
gone, ``spirit-py revert`` finds the named lock free and goes on from that position by itself, as
long as the binlog reaches it. A run of the migration's own command goes on keeping.

**How it ends.** By time: ``_t_old`` is dropped, as after every migration. By a revert. By a fault
of the feed (DDL or TRUNCATE by others, a value that does not fit): the reason is kept in the
checkpoint table and told to whoever asks; ``_t_old`` stays, because it may be the only copy of
dropped columns. By a signal: position and tables stay, and ``spirit-py revert`` may still take
over.
"""

from spirit_py.migration.entry import migrate

__all__ = ["migrate"]
