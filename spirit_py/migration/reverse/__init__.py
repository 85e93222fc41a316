"""Reverse replication: for a time after the swap the old table follows the new one.

A change feed that begins after the RENAME
(:attr:`~spirit_py.cutover.plan.CutoverResult.after_rename`) applies the writes to ``t`` to
``_t_old``, through the reversed mapping (:mod:`spirit_py.table.build`). ``spirit-py revert`` drains
the feed, compares all rows, and swaps ``t`` to ``_t_undone`` and ``_t_old`` to ``t``.
"""
