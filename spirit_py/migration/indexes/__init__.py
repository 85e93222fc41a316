"""Deferred indexes: left out of the new table while rows are copied, built before the checksum.

With random secondary indexes larger than the buffer pool, each row that is inserted reads and
writes a page of every index. One ``ADD INDEX`` afterwards sorts instead: measured, 4 million rows
with four such indexes are copied in 66 s with them, and in 10 s without them plus 10 s for the
build.

``plan``            which indexes of a table are deferred, and why
``deferred``        the definitions of the new table with and without them; the drop
``drop_when_slow``  the drop in the middle of the copy, when rows come more slowly all the time
``build``           the build, again after a fault that passes, and its progress

The new table has one of two definitions, whole or without the deferred indexes, and both are in
the record before the indexes are dropped. So a run that carries on reads which of them it finds.
"""
