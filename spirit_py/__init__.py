"""Online schema migration for MySQL: copy by threads and Spark, change feed, checksum, cutover.

The functions of the library are in :mod:`spirit_py.api`, which is loaded when one of them is first
used: the command line and Spark's executors import this package, too, and need none of it. Type
checkers read their types in the stub beside this module.
"""

__version__ = "0.1.0"

_PLACES = {
    "spirit_py.options.commands": (
        *(
            "ArchiveArguments",
            "BatchArguments",
            "ChecksumArguments",
            "CleanupArguments",
            "FleetArguments",
            "MigrationArguments",
            "MoveArguments",
            "MovePlanArguments",
        ),
        *("PlanArguments", "RevertArguments", "StatusArguments"),
    ),
    "spirit_py.api.running": ("Running",),
    "spirit_py.api.commands": (
        *("FleetFailed", "migrate_fleet", "start_fleet"),
        *("BatchFailed", "archive_table", "checksum_tables", "cleanup", "migrate", "migrate_batch"),
        *("move_tables", "plan_move", "start_move"),
        *("migration_status", "plan_migration", "revert", "start_batch", "start_migration"),
    ),
    "spirit_py.api.source": ("register_source",),
    "spirit_py.errors": (
        *("DifferencesFound", "Interrupted", "MigrationFailure", "OutcomeUnknown", "Refusal"),
        *("SpiritError", "Stopped", "UnfinishedWork", "UsageFault"),
    ),
    "spirit_py.events.event": ("Event",),
    "spirit_py.plan": ("Plan",),
    "spirit_py.status.report": ("MigrationReport",),
    "spirit_py.batch.report": ("BatchReport",),
    "spirit_py.compare.report": ("CompareReport",),
    "spirit_py.fleet.report": ("FleetReport",),
    "spirit_py.progress": ("BatchStatus", "MigrationStatus"),
}
_MODULES = {name: module for module, names in _PLACES.items() for name in names}

__all__ = ["__version__", *_MODULES]  # noqa: PLE0604 - they are all texts


def __getattr__(name: str) -> object:
    """Load a name of the library when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
