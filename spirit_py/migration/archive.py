"""Rows that a run archives: what ``--keep`` left out of a swapped table, or those of any table.

After the swap nobody writes to the old table, so its rows can be proved; before that it is not
dropped. An archive that cannot be made leaves it where it is.
"""

from __future__ import annotations

import re
import signal
from functools import partial
from typing import TYPE_CHECKING, Final

from spirit_py.archiving.archive import Archive, Archived, Partitioning, require_there
from spirit_py.archiving.columns import StoredTable
from spirit_py.archiving.folder import ArchiveFailure
from spirit_py.archiving.ranges import ReadTable
from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.config import SparkConfig
from spirit_py.errors import Interrupted, Refusal, ServerFault, SpiritError
from spirit_py.events.swap import ArchiveBegun, ArchiveProved
from spirit_py.migration.facts import Concluded
from spirit_py.migration.run import Run, run_to_its_end
from spirit_py.migration.swap.old_tables import with_old_table
from spirit_py.migration.swap.same_tables import FORWARD
from spirit_py.migration.throttling import throttled
from spirit_py.mysql.endpoint import require_one_server
from spirit_py.mysql.evaluation import under_modes
from spirit_py.mysql.facts import read_facts, require_mysql
from spirit_py.mysql.faults import access_denied
from spirit_py.mysql.grants import read_grants
from spirit_py.mysql.tables.definition import near_name, read_table, stored_name
from spirit_py.mysql.tables.identity import born_at
from spirit_py.pace import Work, await_turn
from spirit_py.phases import Phase
from spirit_py.preflight.checks.archive import require_archivable, require_names
from spirit_py.preflight.checks.kept_rows import judged_with
from spirit_py.preflight.row_expression import Given, read_row_expression
from spirit_py.spark.engine import SparkEngine
from spirit_py.spark.settings import local_slots
from spirit_py.status.reporters import Reporters
from spirit_py.table.names import archive_folder
from spirit_py.threads import StopSwitch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from spirit_py.checkpoint.record import CheckpointRecord
    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import Reporter
    from spirit_py.mysql.session import Session
    from spirit_py.spark.gang import GangEngine
    from spirit_py.status.report import MigrationReport
    from spirit_py.table.expressions import RowExpression
    from spirit_py.table.names import Name

_LEFT: Final = "the change is done, and the old table is kept"
_LONGEST_NAME: Final = 60


@dataclass(frozen=True, kw_only=True)
class _Found:
    """A table to be archived, as it was read."""

    what: ReadTable
    born: int
    by: Partitioning | None
    keep: RowExpression | None


def require_choice(run: Run, record: CheckpointRecord) -> None:
    """Refuse to drop an old table that an earlier run was to archive before."""
    wanted = record.choices
    if wanted.archive_to and not run.config.archive_to:
        raise Refusal(
            "the migration is to archive the rows that it left out before the old table is dropped,"
            " and this command does not say where to",
            hint=f"add {wanted.options}; without an archive, spirit-py cleanup --drop-old drops it",
            error_code=ErrorCode.ARCHIVE_REFUSED,
        )


def archive_old_tables(
    run: Run, tables: Sequence[Name], record: CheckpointRecord
) -> dict[Name, Archived]:
    """Archive what is not kept of each old table that is there; ArchiveFailure leaves them all."""
    if not run.config.archive_to:
        return {}
    ours = run.step("archive", partial(with_old_table, tables=tables))
    if not ours:
        return {}
    run.go_on_to(Phase.ARCHIVE)
    try:
        found = [
            run.step("archive", partial(_old_table, run=run, name=name, moment=record.started_at))
            for name in ours
        ]
        with run.session("archive") as session:
            settings = under_modes(session, read_facts(session), run.config.modes)
        if record.judged:
            now = judged_with([one.keep for one in found if one.keep is not None], settings)
            # Of an old table that is gone, nobody knows any more how it was read.
            if not now or not set(now.split(",")) <= set(record.judged.split(",")):
                raise ArchiveFailure(
                    "--keep would judge rows otherwise than the copy did: settings of the server"
                    " are others now (time_zone, sql_mode, default_week_format or their like)",
                    hint="set them back and run the same command again",
                )
        made = {
            name: _archive(run, one, name, _slots(run.config))
            for name, one in zip(ours, found, strict=True)
        }
    except SpiritError as error:
        raise _left(run, error) from error
    if run.config.drop_old_after:
        run.engines.rest()
    return made


def require_archived(run: Run, made: Mapping[Name, Archived]) -> None:
    """Raise an ArchiveFailure where an archive is not there any more when its table is dropped."""
    try:
        there = run.step("cleanup", partial(with_old_table, tables=[*made])) if made else []
        for name in there:
            require_there(run.engines.context(run.show), made[name])
    except SpiritError as error:
        raise _left(run, error) from error
    finally:
        run.engines.rest()


def _left(run: Run, error: SpiritError) -> SpiritError:
    stopped = run.stop.cause_of(error)
    if isinstance(stopped, Interrupted):
        stopped.hint = "the change is done; the same command carries on with the archive"
        return stopped
    return ArchiveFailure(f"{_LEFT}: {error.message}", hint=error.hint, details=error.details)


def _old_table(session: Session, *, run: Run, name: Name, moment: str) -> _Found:
    schema, table = name
    return _read(run, session, (schema, FORWARD.swapped_out(table)), moment, named=(table.lower(),))


def _read(
    run: Run, session: Session, name: Name, moment: str, *, named: tuple[str, ...] = ()
) -> _Found:
    """Read a table's definition, and the expressions as the server reads them."""
    config = run.config
    facts = under_modes(session, read_facts(session), config.modes)
    table = read_table(session, *name)
    if table is None:
        raise Refusal(
            f"there is no table {'.'.join(name)}",
            hint=f"{near_name(session, *name)}check --table and --database; a view has no rows of"
            " its own",
            error_code=ErrorCode.NO_SUCH_TABLE,
        )
    require_names(table)
    keep = by = None
    if config.modes.keep:
        given = Given(option="--keep", text=config.modes.keep, named=named)
        keep = read_row_expression(session, table, given, facts, moment=moment)
    if config.archive_by:
        given = Given(
            option="--archive-by",
            text=config.archive_by,
            code=ErrorCode.ARCHIVE_REFUSED,
            named=named,
        )
        value = read_row_expression(session, table, given, facts, moment=moment).value()
        by = Partitioning(name=_column_of(config.archive_by, table.has_column), value=_named(value))
    wanted = "TRUE" if keep is None else f"NOT {keep.condition()}"
    what = ReadTable(table=table, stored=StoredTable.of(table), wanted=wanted)
    return _Found(what=what, born=born_at(session, *name), by=by, keep=keep)


def _column_of(expression: str, taken: Callable[[str], bool]) -> str:
    """Name the folders of an expression: ``YEAR(created_at)`` is ``year_created_at=...``."""
    name = re.sub(r"[^0-9a-z]+", "_", expression.lower()).strip("_")[:_LONGEST_NAME] or "part"
    while taken(name):
        name += "_"
    return name


def _named(value: str) -> str:
    """Return SQL of a value that can be a folder's name; its digest where it is long or no text."""
    text = f"CAST({value} AS CHAR)"
    odd = f"(LENGTH({text}) > {_LONGEST_NAME} OR {text} REGEXP '[[:cntrl:]]')"
    digest = f"CONCAT('sha256-', LEFT(SHA2({value}, 256), 16))"
    return f"IF({value} IS NULL, NULL, IF({text} IS NULL OR {odd}, {digest}, {text}))"


def _slots(config: MigrationConfig) -> int:
    """Return how many tasks read at a time: as many as a comparison has on one machine."""
    return config.threads if config.spark_master else min(config.threads, SparkConfig.threads)


def _archive(run: Run, found: _Found, name: Name, slots: int) -> Archived:
    table = found.what.table
    path = archive_folder(run.config.archive_to, name)
    run.tell(ArchiveBegun(archived=table.full_name, folder=path))
    context = run.engines.context(run.show)
    total = table.estimated_rows or None
    done = 0

    def progress(rows: int, doing: str) -> None:
        nonlocal done
        # Ranges are cut by their size; the last has fewer rows.
        done = done + rows if total is None else min(done + rows, total)
        run.figures.archiving(table, done, total, doing)

    with throttled(run, Work.ARCHIVE):
        archive = Archive(
            what=found.what,
            path=path,
            born=found.born,
            kept="" if found.keep is None else found.keep.expression,
            by=found.by,
            context=context,
            connection=run.config.connection,
            engine=run.engines.driver,
            slots=slots,
            step=partial(run.step, "archive"),
            turn=partial(await_turn, run.pace, Work.ARCHIVE, pause=run.stop.pause, show=run.show),
            progress=progress,
            stop=run.stop,
        )
        made = archive.run()
    run.tell(
        ArchiveProved(
            archived=table.full_name,
            folder=made.folder,
            rows=made.rows,
            kept=made.kept,
            files=made.files,
            bytes=made.bytes,
            hash=made.hashes[0],
        )
    )
    run.stop.check()
    return made


def archive(
    config: MigrationConfig,
    *,
    reporter: Reporter,
    engine_factory: Callable[[MigrationConfig], GangEngine] | None = None,
    stop: StopSwitch | None = None,
) -> MigrationReport:
    """Archive a table's rows, which stay where they are; write the report.

    Raises SpiritError with the exit code of the process (R16).
    """
    reporter = Reporters([reporter])
    run = Run(
        config,
        reporter,
        engine_factory=engine_factory or SparkEngine,
        stop=stop or StopSwitch(),
    )
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
                found = _read(run, session, name, "")
            except ServerFault as fault:
                if access_denied(fault):
                    why = "--keep and --archive-by are read with an empty copy of the table"
                    read_grants(session).require(("CREATE TEMPORARY TABLES",), name[0], why)
                raise
            run.label(session, under_modes(session, facts, config.modes), [name])
            run.lock_tables_from_other_runs([name])
        run.enter(Phase.ARCHIVE)
        table = found.what.table
        _archive(run, found, (table.schema, table.name), local_slots(config))
        run.go_on_to(Phase.DONE)
    run.note(Concluded("archived"))
