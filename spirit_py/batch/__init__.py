"""A batch: one migration after another, or several side by side, for many tables.

``spirit-py migrate --tables PATTERN`` and ``--statements FILE`` lead here: ``plan_batch`` only
reads, ``run_batch`` gives each table a migration of its own, which ``spirit-py ctl`` and ``status``
reach under the table's name. Tables that must change at one moment are one migration instead.
"""
