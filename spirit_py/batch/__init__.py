"""A batch: one migration after another, or several side by side, for many tables.

``spirit-py migrate --tables PATTERN`` and ``--statements FILE`` lead here. Life::

    plan = plan_batch(config)      tables found, definitions compared, preflight of all; read-only
    ... the plan is shown, and the operator agrees ...
    report = run_batch(config, plan, reporter=...)

Each table has a migration of its own (:mod:`spirit_py.migration`), with its own checkpoint, change
feed, throttlers and locks, which ``spirit-py ctl`` and ``status`` reach under the table's name. The
batch adds what is about all of them:

===============  ==============================================================================
``patterns``     how ``shop_%.orders`` is read
``changes``      which tables are changed, and how; from patterns or from a file
``plan``         what will be done; ``planning`` finds it out, for ``spirit-py plan`` too
``record``       what the server keeps of the batch, ``store`` reads and writes it
``trial``        what is done with a table that an earlier run of the batch has begun
``slots``        which table begins next, and with how many slots
``table_run``    the migration of one table, and the Spark of all
``batch``        the loop over the tables
``report``       each table's report, the totals and the exit code
``entry``        from the plan to the report
``listing``      batches that are not done, for ``spirit-py status`` and ``cleanup --batch``
===============  ==============================================================================

Several tables that must change at one moment are another thing: one migration with one RENAME
(``--statement`` with several ALTER TABLE).
"""

from spirit_py.batch.entry import reported, run_batch
from spirit_py.batch.planning import plan_batch

__all__ = ["plan_batch", "reported", "run_batch"]
