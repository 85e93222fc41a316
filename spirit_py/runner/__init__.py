"""The composition root: builds every part of a migration and runs the phases in order.

No SQL worth the name and no loops over rows here. ``entry`` is called by the command line and
owns the process's side: signals, display, report. ``run`` has what all phases share. ``opening``
reads what there is and asks the checks, ``shortcuts`` lets the server do it alone, ``auxiliary``
makes and drops the tables beside the sources, ``migration`` runs the phases over them, ``work`` is
one table on its way through them, ``deferral`` waits for the operator, ``swap`` swaps. ``figures``
gathers snapshots and the report from the parts.
"""

from spirit_py.runner.entry import migrate

__all__ = ["migrate"]
