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
``plan``         what will be done, with ``definitions`` and ``room``
``full_plan``    the same as a plan of :mod:`spirit_py.plan`, for ``spirit-py plan``
``record``       what the server keeps of the batch, ``store`` reads and writes it
``resume``       what is done with a table that an earlier run of the batch has begun
``unfinished``   what is done with a table that another migration has begun
``slots``        which table begins next, and with how many slots
``related``      which tables reference each other, and are not migrated at the same time
``spark``        one Spark for all
``table_run``    the migration of one table
``batch``        the loop over the tables
``report``       each table's report, the totals and the exit code
``entry``        from the plan to the report
``listing``      the batches of a server, for ``spirit-py status``
``giving_up``    forgets one that nobody will finish, for ``spirit-py cleanup --batch``
===============  ==============================================================================

Several tables that must change at one moment are another thing: one migration with one RENAME
(``--statement`` with several ALTER TABLE).
"""

from spirit_py.batch.entry import reported, run_batch
from spirit_py.batch.plan import plan_batch

__all__ = ["plan_batch", "reported", "run_batch"]
