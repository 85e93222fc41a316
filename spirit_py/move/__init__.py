"""``spirit-py move``: tables go to another server while they are written.

A move is a migration whose new tables are on another server, the *target*. The feed reads the
source's binlog, the appliers write to the target; a task of the copy reads rows of the source as
literals, which the source's server renders (:mod:`spirit_py.move.carrier`). Then comparison,
checkpoint, throttling and ``ctl`` are those of a migration.

A table that goes to several targets has a pair for each (:mod:`spirit_py.move.shards`), with the
run as it faces that server; they share one feed, one copy's pace, one record and one switch. Where
rows of several sources come together in a table, each has a pair, a feed and a record of its own,
and each row of the new table is *owned* by the source whose name the expression gives: no
statement of another source touches it. One switch locks all.

The record is in the source's checkpoint table. The target has a checkpoint table too, whose proofs
say which tables there are the move's (R24); it goes with the switch.

The *switch* (:mod:`spirit_py.move.switch`) renames the new tables to their names on the target,
then the source's out of the way (``_orders_moved``), both under a lock, and runs the operator's
command. The source's RENAME decides, of several sources the last one's: before it the source is the
table, after it the target is (:mod:`spirit_py.move.decision`). docs/commands/move.md has the same
for operators.
"""
