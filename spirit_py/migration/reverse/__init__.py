"""Reverse replication: for a time after the swap the old table follows the new one.

After the RENAME the application writes to ``t``, which has the new definition; ``_t_old`` holds
every row as it was at the swap. A change feed that begins at the place after the RENAME
(:attr:`~spirit_py.cutover.plan.CutoverResult.after_rename`) applies to ``_t_old`` what is written
to ``t``, through the reversed mapping (:mod:`spirit_py.table.build`). So nothing is copied, and
``_t_old`` can take the place of ``t`` again at any time: ``spirit-py revert`` drains the feed,
compares all rows, and swaps ``t`` to ``_t_undone`` and ``_t_old`` to ``t`` under the cutover's lock
and proof.

==================  ==============================================================================
``feed.py``         the plan before the copy, the definitions, the reverse feed
``phase.py``        the migration's phase ``keep``: begin after the swap, or where a run stopped
``keeper.py``       follow until the time is over, a revert is asked for, or the feed breaks
``record.py``        the record of it, as the process that runs it keeps it up to date
``swap_back.py``    the drain, the comparison and the swap of a revert
``revert.py``       the command: ask that process, or take its place where it has ended
==================  ==============================================================================
"""
