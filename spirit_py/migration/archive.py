"""Rows that a run archives: what ``--keep`` left out of a swapped table, or those of any table.

After the swap nobody may write to the old table, so its rows can be proved; before that it is not
dropped. An archive that cannot be made leaves it where it is, and so does a row that was written to
it all the same: one that counts as kept would be nowhere.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from spirit_py.archiving.archive import Archive
from spirit_py.archiving.columns import StoredTable
from spirit_py.archiving.folder import ArchiveFailure, Folder
from spirit_py.archiving.notes import Archived, require_noted, require_there
from spirit_py.archiving.ranges import Partitioning, ReadTable
from spirit_py.archiving.session import job
from spirit_py.binlog.resumption import why_unreachable
from spirit_py.checkpoint.examination import old_table_of, owner_of
from spirit_py.checkpoint.proofs import find_reverse, noted_proof, read_proofs
from spirit_py.checkpoint.record import CheckpointRecord
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.checkpoint.writer import note_of_old
from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.config import SparkConfig
from spirit_py.errors import Interrupted, Refusal, SpiritError
from spirit_py.events.swap import ArchiveBegun, ArchiveProved
from spirit_py.migration.swap.old_table_writes import OldTableWrites, await_writers, unknown
from spirit_py.migration.swap.old_tables import names_unproven, with_old_table
from spirit_py.migration.swap.same_tables import FORWARD
from spirit_py.migration.throttling import throttled
from spirit_py.mysql.evaluation import under_modes
from spirit_py.mysql.facts import read_facts
from spirit_py.mysql.faults import takes_no_writes
from spirit_py.mysql.grants import IDENTITY_PRIVILEGES, read_grants
from spirit_py.mysql.tables.definition import near_name, no_base_table, read_table
from spirit_py.mysql.tables.identity import born_at, emptied_partitions
from spirit_py.pace import Work, await_turn
from spirit_py.phases import Phase
from spirit_py.preflight.checks.archive import require_names
from spirit_py.preflight.checks.kept_rows import judged_with
from spirit_py.preflight.row_expression import Given, read_row_expression
from spirit_py.spark.member import lacking
from spirit_py.spark.settings import single_machine
from spirit_py.table.names import AuxiliaryNames, archive_folder, is_local

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.migration.run import Run
    from spirit_py.migration.swap.old_tables import LastLook
    from spirit_py.mysql.session import Session
    from spirit_py.table.expressions import RowExpression
    from spirit_py.table.names import Name
    from spirit_py.table.schema import TableSchema


@dataclass(frozen=True, kw_only=True)
class TableToArchive:
    """A table to be archived, as it was read."""

    what: ReadTable
    born: int
    by: Partitioning | None
    keep: RowExpression | None


@dataclass(frozen=True, kw_only=True)
class Archives:
    """The archives of old tables as they were proved, and what follows the tables since.

    ``begun``: the tables of which an earlier run has dropped a part, once their archive was proved.
    """

    tables: Mapping[Name, tuple[Archive, Archived]]
    writes: OldTableWrites | None = None
    begun: Sequence[Name] = ()


def require_folders(run: Run, tables: Sequence[Name]) -> None:
    """Refuse folders of another file system, or executors, that could not be used after the swap.

    Only Spark knows whether: it is started for that. Those of this machine were looked at.
    """
    config = run.config
    if not config.archive_to or is_local(config.archive_to):
        return
    context = run.engines.context(run.show)
    try:
        for name in tables:
            Folder(context, archive_folder(config.archive_to, name)).require_usable()
    except ArchiveFailure as error:
        unusable = (
            "name a folder that Spark can write to with --archive-to (its libraries and"
            " credentials are given with --spark-conf), one for this archive alone"
        )
        raise _refusal(error, unusable) from error
    if not single_machine(config):
        try:
            _require_arrow(run, context)
        except ArchiveFailure as error:
            raise _refusal(error, error.hint) from error


def _refusal(error: ArchiveFailure, hint: str) -> Refusal:
    return Refusal(error.message, hint=hint, error_code=ErrorCode.ARCHIVE_REFUSED)


def _require_arrow(run: Run, context: Any) -> None:
    run.show("a task on an executor of Spark")
    with job(context, "spirit-py trial", run.stop, "run a task"):
        (lacks,) = context.parallelize([0], 1).map(lambda _: lacking(["pyarrow"])).collect()
    run.show("")
    if lacks:
        raise ArchiveFailure(
            f"the executors cannot make an archive: {lacks}",
            hint="install pyarrow for their Python, or leave --spark-master out",
        )


def archive_old_tables(run: Run, tables: Sequence[Name], record: CheckpointRecord) -> Archives:
    """Archive what is not kept of each old table that is there; ArchiveFailure leaves them all.

    ``record`` has the position from before the swap.
    """
    if not run.config.archive_to:
        return Archives(tables={})
    ours, begun = run.step("archive", partial(_whole, tables=tables))
    if not ours:
        return Archives(tables={}, begun=begun)
    run.go_on_to(Phase.ARCHIVE)
    try:
        read = partial(read_to_archive, run=run, moment=record.started_at)
        found = [
            run.step("archive", partial(read, name=_old(name), named=(name[1].lower(),)))
            for name in ours
        ]
        with run.session("archive") as session:
            settings = under_modes(session, read_facts(session), run.config.modes)
            kept = [one.keep for one in found if one.keep is not None]
            now = judged_with(session, kept, settings)
        # Of an old table that is gone, nobody knows any more how it was read.
        if record.judged and not (now and set(now.split(",")) <= set(record.judged.split(","))):
            raise ArchiveFailure(
                "--keep would judge rows otherwise than the copy did: settings of the server are"
                " others now (time_zone, sql_mode, default_week_format or their like)",
                hint="set them back and run the same command again",
            )
        place = run.step("archive", partial(_place_of_swap, run=run, tables=ours, record=record))
        writes = _watched(run, [one.what.table for one in found], place)
        made = {
            name: archive_rows(run, one, name, _slots(run.config))
            for name, one in zip(ours, found, strict=True)
        }
        writes.require_none()
        run.step("archive", partial(_note_kept, made=made), passing=takes_no_writes)
    except SpiritError as error:
        raise _left(run, error) from error
    if run.config.drop_old_after:
        writes.close()
        run.engines.rest()
    return Archives(tables=made, writes=writes, begun=begun)


def _whole(session: Session, tables: Sequence[Name]) -> tuple[list[Name], list[Name]]:
    """Return those of the tables whose old one is there, and apart those that are half dropped.

    A drop that was stopped between two partitions had the proof of all of them. ArchiveFailure
    where somebody else has emptied partitions, or has taken the whole table, before there was one.
    """
    found: list[Name] = []
    begun: list[Name] = []
    there = with_old_table(session, tables)
    for name in tables:
        noted = old_table_of(session, name)
        proved = noted is not None and bool(noted.kept)
        emptied = 0
        if name in there:
            proof = noted_proof(session, table=name, proof=FORWARD.outgoing)
            emptied, _ = emptied_partitions(session, *_old(name), proof)
        if not proved and (emptied or (noted is not None and name not in there)):
            other = names_unproven(session, [name], there, FORWARD)
            what = "it was rebuilt, or is another table" if other else "it is gone"
            what = "partitions of it were dropped or emptied" if emptied else what
            raise ArchiveFailure(
                f"{'.'.join(_old(name))} has not all rows of the swap any more:"
                f" {what}, by another than this command",
                hint="where these rows are not needed, spirit-py cleanup --drop-old ends the"
                " migration, and drops the rest",
            )
        if name in there:
            (begun if emptied else found).append(name)
    return found, begun


def swapped_out_of(session: SqlSession, name: Name) -> tuple[Name, ...]:
    """Return the table that this one was swapped out of by its name: what drops it locks that."""
    beside = AuxiliaryNames.of_swapped_out(name[1])
    return () if beside is None else (owner_of(session, name[0], beside.checkpoint),)


def require_not_begun(session: SqlSession, name: Name, source: Name) -> None:
    """Refuse a table that was swapped out and is half dropped; nobody else may drop it now."""
    checkpoint = CheckpointTable(*source)
    if not checkpoint.is_ours(session):
        return
    grants, why = read_grants(session), f"it shows whether a drop of {'.'.join(name)} was begun"
    grants.require(("SELECT",), source[0], why, [checkpoint.name[1]], alone=True)
    grants.require(IDENTITY_PRIVILEGES, "", why)
    proofs = read_proofs(session, *source)
    for proof in (proofs.source, proofs.new):
        emptied, parts = emptied_partitions(session, *name, proof)
        if emptied:
            raise Refusal(
                f"{emptied} of {parts} partitions of {'.'.join(name)} are emptied: a drop of it was"
                " begun",
                hint="spirit-py cleanup --drop-old drops the rest; to archive that before, give it"
                " another name with RENAME TABLE",
                error_code=ErrorCode.ARCHIVE_REFUSED,
            )


def _old(name: Name) -> Name:
    return name[0], FORWARD.swapped_out(name[1])


def _place_of_swap(
    session: Session, *, run: Run, tables: Sequence[Name], record: CheckpointRecord
) -> str:
    """Return a place in the binlog that is not behind the swap; empty for the place of now.

    That is enough where an earlier run has noted which rows the old tables kept.
    """
    noted = [old_table_of(session, table) for table in tables]
    if all(one is not None and one.kept for one in noted):
        return ""
    reverse = find_reverse(session, *tables[0])
    place = (reverse.position if reverse is not None else "") or record.position
    why = "" if place else "the place of the swap in the binlog is not noted"
    if place and run.state.swapped_before:
        age = CheckpointTable(*record.home).age(session, CheckpointRecord)
        why = why_unreachable(run.config.connection, place, age=age, origin=record.origin)
    if why:
        raise unknown(", ".join(".".join(_old(name)) for name in tables), why)
    return place


def _watched(run: Run, old: Sequence[TableSchema], place: str) -> OldTableWrites:
    config = run.config
    writes = OldTableWrites(config.connection, config.feed, old, position=place, stop=run.stop)
    run.closing("what follows the old tables", writes.close)
    if not place:
        run.step("archive", partial(await_writers, tables=old))
    return writes


def _note_kept(session: Session, *, made: Mapping[Name, tuple[Archive, Archived]]) -> None:
    """Note how many rows the old tables kept, and their hash; ArchiveFailure where others are."""
    # Nothing else misses partitions that were dropped before their rows were read.
    _whole(session, list(made))
    for name, (_, proved) in made.items():
        kept = f"{proved.kept} {proved.hashes[1]}"
        noted = old_table_of(session, name)
        if noted is not None and noted.kept not in {"", kept}:
            raise ArchiveFailure(
                f"the rows that --keep keeps of {'.'.join(_old(name))} are not"
                f" those of the swap any more: it has {proved.kept}, and had"
                f" {noted.kept.partition(' ')[0]}",
                hint="somebody wrote to it: see which rows are missing in the table, and write them"
                " to it by hand; then spirit-py cleanup --drop-old drops the old one",
            )
        note_of_old(session, name, kept=kept)


def require_archived(run: Run, archives: Archives) -> LastLook | None:
    """Raise an ArchiveFailure where tables may not be dropped; return the last look under a lock.

    The archives have to be there, and where old tables were kept for a while, their rows as well.
    """
    made = archives.tables
    try:
        names = run.step("cleanup", partial(with_old_table, tables=[*made, *archives.begun]))
        there = [name for name in names if name in made]
        begun = [name for name in names if name in archives.begun]
        watching = [archives.writes] if there and archives.writes is not None else []
        if there and run.config.drop_old_after:
            watching = [_watched(run, [made[name][0].what.table for name in there], "")]
            with throttled(run, Work.ARCHIVE):
                for name in there:
                    made[name][0].require_unchanged(made[name][1])
        if begun:
            watching.append(run.step("cleanup", partial(_watched_since, run=run, names=begun)))
        for name in there:
            require_there(run.engines.context(run.show), made[name][1])
        for name in begun:
            noted = run.step("cleanup", partial(old_table_of, name=name))
            if noted is not None and noted.files:
                folder = archive_folder(run.config.archive_to, name)
                require_noted(run.engines.context(run.show), folder, noted.files)
    except SpiritError as error:
        raise _left(run, error) from error
    finally:
        run.engines.rest()
    if not watching:
        return None

    def last_look(session: Session | None) -> None:
        try:
            for writes in watching:
                writes.require_none(session)
        except ArchiveFailure as error:
            raise _left(run, error) from error

    # Under the lock only what is written from now on is waited for.
    last_look(None)
    if there:
        position = watching[0].position

        # A drop that stops half-way is carried on from here.
        def note(session: Session) -> None:
            for name in there:
                note_of_old(session, name, looked_at=position, files=made[name][1].digest)

        run.step("cleanup", note, passing=takes_no_writes)
    return last_look


def _watched_since(session: Session, *, run: Run, names: Sequence[Name]) -> OldTableWrites:
    """Read the binlog from where the drop of these tables began."""
    old = [_old(name) for name in names]
    noted = old_table_of(session, names[0])
    place = "" if noted is None else noted.looked_at
    if not place:
        raise unknown(".".join(old[0]), "where its drop began is not noted")
    tables = [table for name in old if (table := read_table(session, *name)) is not None]
    return _watched(run, tables, place)


def _left(run: Run, error: SpiritError) -> SpiritError:
    stopped = run.stop.cause_of(error)
    if isinstance(stopped, Interrupted):
        return stopped.saying("the change is done; the same command carries on with the archive")
    cause = stopped if isinstance(stopped, SpiritError) else error
    said = f"the change is done, and the old table is kept: {cause.message}"
    left = ArchiveFailure(said, hint=cause.hint, details=cause.details)
    left.says_done = True
    return left


def read_to_archive(
    session: Session, run: Run, name: Name, moment: str = "", *, named: tuple[str, ...] = ()
) -> TableToArchive:
    """Read a table's definition, and the expressions as the server reads them."""
    config = run.config
    facts = under_modes(session, read_facts(session), config.modes)
    table = read_table(session, *name)
    if table is None and (other := no_base_table(session, *name)):
        code = ErrorCode.TABLE_NOT_SUITABLE
        raise Refusal(other, hint="name its base table", error_code=code)
    if table is None:
        raise Refusal(
            f"there is no table {'.'.join(name)}",
            hint=f"{near_name(session, *name)}check --table and --database",
            error_code=ErrorCode.NO_SUCH_TABLE,
        )
    require_names(table)
    keep = by = None
    if config.modes.keep:
        given = Given(option="--keep", text=config.modes.keep, named=named)
        keep = read_row_expression(session, table, given, facts, moment=moment)
    if text := config.archive_by:
        given = Given(option="--archive-by", text=text, code=ErrorCode.ARCHIVE_REFUSED, named=named)
        value = read_row_expression(session, table, given, facts, moment=moment).value()
        by = Partitioning.by(text, value, table.has_column)
    wanted = "TRUE" if keep is None else f"NOT {keep.condition()}"
    what = ReadTable(table=table, stored=StoredTable.of(table), wanted=wanted)
    return TableToArchive(what=what, born=born_at(session, *name), by=by, keep=keep)


def _slots(config: MigrationConfig) -> int:
    """Return how many tasks read at a time: as many as a comparison has on one machine."""
    return config.threads if config.spark_master else min(config.threads, SparkConfig.threads)


def archive_rows(
    run: Run, found: TableToArchive, name: Name, slots: int
) -> tuple[Archive, Archived]:
    """Archive the rows of a table that was read; return the archive, and what it is proved by."""
    table = found.what.table
    path = archive_folder(run.config.archive_to, name)
    run.tell(ArchiveBegun(archived=table.full_name, folder=path))
    context = run.engines.context(run.show)
    total = table.estimated_rows or None
    done = 0

    def progress(rows: int, doing: str) -> None:
        nonlocal done
        # The estimate may be too low.
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
            turn=lambda: await_turn(run.pace, Work.ARCHIVE, pause=run.stop.pause, show=run.show),
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
    return archive, made
