"""The composition root: builds every part of a migration and runs the phases in order.

No SQL worth the name and no loops over rows here. ``entry`` is called by the command line,
``opening`` reads what there is and asks the checks, ``migration`` runs the phases, ``figures``
gathers snapshots and the report from the parts.
"""

from spirit_py.runner.entry import migrate, spark_engine

__all__ = ["migrate", "spark_engine"]
