"""Run one migration, or archive one table, from configuration to report; what that runs on."""

from __future__ import annotations

import platform
import signal
from typing import TYPE_CHECKING, Final

from spirit_py import __version__
from spirit_py.errors import Interrupted, OutcomeUnknown, Refusal, ServerFault, SpiritError
from spirit_py.migration.archive import (
    archive_rows,
    read_to_archive,
    require_not_begun,
    swapped_out_of,
)
from spirit_py.migration.facts import Concluded, PlainFact
from spirit_py.migration.run import Run, run_to_its_end
from spirit_py.mysql.connect import client_version
from spirit_py.mysql.endpoint import require_one_server
from spirit_py.mysql.evaluation import under_modes
from spirit_py.mysql.facts import read_facts, require_mysql
from spirit_py.mysql.faults import access_denied
from spirit_py.mysql.grants import read_grants
from spirit_py.mysql.tables.definition import stored_name
from spirit_py.phases import Phase
from spirit_py.preflight.checks.archive import require_archivable
from spirit_py.spark.engine import SparkEngine
from spirit_py.spark.java import require_java
from spirit_py.spark.settings import local_slots
from spirit_py.status.report import installed
from spirit_py.status.reporters import Reporters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import Reporter, SwappedAlong
    from spirit_py.events.event import Gate
    from spirit_py.spark.gang import GangEngine
    from spirit_py.status.report import MigrationReport
    from spirit_py.threads import StopSwitch


def migrate(
    config: MigrationConfig,
    *,
    reporter: Reporter,
    engine_factory: Callable[[MigrationConfig], GangEngine] = SparkEngine,
    stop: StopSwitch | None = None,
    gate: Gate | None = None,
    along: SwappedAlong | None = None,
) -> MigrationReport:
    """Run one migration to its end, and write its report to the file of ``config.records``.

    ``engine_factory`` makes the Spark engine, ``stop`` stops the migration from outside, ``gate``
    is asked before the tables are changed, and ``along``, which needs ``no_shortcut``, is swapped
    in the same RENAME. Raises SpiritError with the exit code of the process (R16).
    """
    # Only here: an archive, which this module runs as well, needs none of it.
    from spirit_py.migration.migration import run_migration

    reporter = Reporters([reporter])
    run = Run(config, reporter, engine_factory=engine_factory, stop=stop, gate=gate, along=along)
    return run_to_its_end(
        run,
        reporter,
        "migrate",
        lambda: run_migration(run),
        left_at_once=lambda: _left_at_once(run),
    )


def _left_at_once(run: Run) -> SpiritError:
    if unknown := outcome_unknown([run]):
        return unknown
    if not (hint := run.done_hint):
        hint = "the source table is intact; run the same command again"
        if run.state.resumable:
            run.note(PlainFact.STAYS_RESUMABLE)
            hint += ": it resumes from the last checkpoint"
    return Interrupted(signal.SIGINT, hint=hint)


def outcome_unknown(runs: Iterable[Run]) -> OutcomeUnknown | None:
    """Return the error for who leaves while a change of tables is sent and not answered, if any."""
    sent = [run.report for run in runs if run.renaming or run.state.altering]
    if not sent:
        return None
    names = ", ".join(one.names for one in sent)
    return OutcomeUnknown(
        f"interrupted twice during the change of {names}: it may or may not have happened",
        hint="the same command looks at the tables, and goes on from what it finds",
    )


_LIBRARIES: Final = ("pyspark", "mysqlclient", "mysql-replication", "click", "rich")


def runtime_versions() -> dict[str, str]:
    """Return what runs here, by name; what cannot be found says why. Takes a second for Java."""
    found = {"spirit-py": __version__, "Python": platform.python_version(), "Java": _java()}
    found |= {name: installed(name) for name in _LIBRARIES}
    return found | {"MySQL client library": client_version()}


def _java() -> str:
    try:
        return require_java().banner.splitlines()[0]
    except Refusal as refusal:
        return f"not usable: {refusal.message}"


def archive(
    config: MigrationConfig,
    *,
    reporter: Reporter,
    engine_factory: Callable[[MigrationConfig], GangEngine] = SparkEngine,
    stop: StopSwitch | None = None,
) -> MigrationReport:
    """Archive a table's rows, which stay where they are; write the report.

    Raises SpiritError with the exit code of the process (R16).
    """
    reporter = Reporters([reporter])
    run = Run(config, reporter, engine_factory=engine_factory, stop=stop)
    return run_to_its_end(
        run,
        reporter,
        "archive",
        lambda: _archive_table(run),
        left_at_once=lambda: Interrupted(
            signal.SIGINT, hint="the table is as it was; the same command carries on"
        ),
    )


def _archive_table(run: Run) -> None:
    config = run.config
    with run.stack:
        with run.first_session("driver") as session:
            require_one_server(session, config.connection)
            name = stored_name(session, config.database, config.table)
            facts = read_facts(session)
            require_mysql(facts)
            require_archivable(config)
            try:
                found = read_to_archive(session, run, name)
            except ServerFault as fault:
                if access_denied(fault):
                    why = "--keep and --archive-by are read with an empty copy of the table"
                    read_grants(session).require(("CREATE TEMPORARY TABLES",), name[0], why)
                raise
            run.label(session, under_modes(session, facts, config.modes), [name])
            sources = swapped_out_of(session, name)
            run.lock_tables_from_other_runs([name, *sources], reads=True)
            for source in sources:
                require_not_begun(session, name, source)
        run.enter(Phase.ARCHIVE)
        table = found.what.table
        archive_rows(run, found, (table.schema, table.name), local_slots(config))
        run.go_on_to(Phase.DONE)
    run.note(Concluded("archived"))
