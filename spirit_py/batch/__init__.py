"""A batch: one migration after another, or several side by side, for many tables.

``spirit-py migrate --tables PATTERN`` and ``--statements FILE`` lead here: ``plan_batch`` only
reads, ``run_batch`` gives each table a migration of its own, which ``spirit-py ctl`` and ``status``
reach under the table's name. Tables that must change at one moment are one migration instead.
"""

from spirit_py.batch.entry import reported, run_batch
from spirit_py.batch.planning import plan_batch

__all__ = ["plan_batch", "reported", "run_batch"]
