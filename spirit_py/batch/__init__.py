"""A batch: one migration after another, or several side by side, for many tables.

``spirit-py migrate --tables PATTERN`` and ``--statements FILE`` lead here. Life::

    plan = plan_batch(config)      tables found, definitions compared, preflight of all; read-only
    ... the plan is shown, and the operator agrees ...
    report = run_batch(config, plan, reporter=...)

Each table has a migration of its own (:mod:`spirit_py.migration`), with its own checkpoint, change
feed, throttlers and locks, which ``spirit-py ctl`` and ``status`` reach under the table's name.

Several tables that must change at one moment are another thing: one migration with one RENAME
(``--statement`` with several ALTER TABLE).
"""

from spirit_py.batch.entry import reported, run_batch
from spirit_py.batch.planning import plan_batch

__all__ = ["plan_batch", "reported", "run_batch"]
