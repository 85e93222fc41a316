"""What RENAME does not carry along as a native ALTER does: foreign keys and triggers.

A key stays on the table that it was made on, and refers to the table that it was made for, whatever
the two are called by then. So after ``RENAME t TO _t_old, _t_new TO t`` the keys of ``t`` would be
on ``_t_old``, and those of its children would refer to ``_t_old``. The same is true of triggers.

How a swap takes them along
===========================

1. **Survey** (:mod:`~spirit_py.attached.foreign_keys.catalogue`), before each lock request: read
   what there is, decide where it goes, make up temporary names with a random token, and note all
   of that in a row of the checkpoint table (:mod:`~spirit_py.attached.record`) before the first
   statement.
2. **Lock** the swapped tables, their children and their parents, WRITE, in one request, with the
   rules for locks that others wait behind. ADD and DROP FOREIGN KEY need the parent alone as well.
3. **Prove** under the lock that there is what was surveyed, and nothing else.
4. **Send** everything in one packet (:mod:`~spirit_py.attached.sequence`): copies under temporary
   names, the RENAME, originals dropped, copies named. The server executes a packet to its end
   although this process dies; a KILL of the session or a crash of the server may stop it.
5. **Settle** (:mod:`~spirit_py.attached.settle`) what is left half-way: where the tables show that
   the RENAME was made, what remains is sent; otherwise what was sent is undone. It is the same in
   the same session under the same lock, in the next try, on a resume, before a cleanup.

What holds in every state between two statements
================================================

* No orphan can arise: a key and its copy hold together, so at worst a write is refused until the
  swap is settled.
* Nothing of ours is on ``_t_new`` before the lock: our writes check no key and lock no parent row,
  and no cascade of the application meets a table that is half copied.
* Every statement is metadata only. An index that the server has made for a key by itself would be
  made again for the copy, row by row (measured: 0.3 s for 500 000 rows); renamed to its own name in
  the same ALTER, it counts as made by name, and stays.

The lock is held for 2 to 6 ms a statement; their number is two for each table with keys, and one
more for each old table.
"""
