"""Write the wanted rows of a table to a folder, piece by piece, and prove that they are there.

A piece is a range of the key: Spark writes it beside the others, and its files are renamed into
their place; then it is noted. Noted pieces are not written again. The proof trusts no note: it
reads every file back, and has the server count and hash every row of the table again.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from spirit_py import points
from spirit_py.archiving.folder import ArchiveFailure
from spirit_py.archiving.notes import (
    MANIFEST,
    REPLACED,
    WRITING,
    Archived,
    ArchiveFolder,
    ByFolder,
    Tally,
    add,
    folder_of,
    manifest_of,
    piece_of,
    server_facts,
    tallies_of,
    total_of,
)
from spirit_py.archiving.rows import SentRows
from spirit_py.archiving.session import SparkTables
from spirit_py.checkpoint.record import digest_of
from spirit_py.chunk.chunk import KeyRange
from spirit_py.classes import dataclass, field, replace
from spirit_py.errors import ServerFault
from spirit_py.mysql.connect import connect
from spirit_py.mysql.tables.definition import read_table, shape_of
from spirit_py.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spirit_py.archiving.ranges import Partitioning, ReadTable
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.session import Session
    from spirit_py.spark.gang import GangEngine
    from spirit_py.threads import StopSwitch

    Step = Callable[[Callable[[Session], Any]], Any]

#: Of the table, in one file; the table's bytes are more than the file's.
_FILE_BYTES: Final = 256 << 20
#: As the largest row within a page, where statistics tell nothing: a file is not too large then.
_FEWEST_ROWS, _UNKNOWN_ROW_BYTES = 1_000, 8 << 10
#: A table with so many times its estimated rows has an old estimate.
_STALE: Final = 3
_UNREAD_SHOWN: Final = 3
#: Rows in which so many values of folders are many.
_SAMPLE_ROWS, _MANY_VALUES = 1_000, 32
#: Files, between two looks whether another run writes to the folder.
_MOVED_AT_ONCE: Final = 50


@dataclass(eq=False, kw_only=True)
class Archive:
    """The archive of one table; :meth:`run` once.

    ``born`` is when the table was made. ``step`` does something in a session of the server and
    again where that was away, ``turn`` waits until a piece may begin, ``progress`` gets the rows
    that are done.
    """

    what: ReadTable
    path: str
    born: int
    kept: str = ""
    by: Partitioning | None = None
    context: Any
    connection: Any
    engine: GangEngine
    slots: int
    step: Step
    turn: Callable[[], object]
    progress: Callable[[int, str], object]
    stop: StopSwitch
    _pieces: list[KeyRange] = field(default_factory=list)
    _unwritten: list[int] = field(default_factory=list)
    #: Of a range of the table.
    _rows: int = 0

    def run(self) -> Archived:
        """Write what is not written yet, prove all of it, and write the manifest."""
        by = None if self.by is None else self.by.name
        self.folder = ArchiveFolder(self.context, self.path, self.what, parted_by=by)
        self._spark = SparkTables(
            self.context, f"archive of {self.what.table.full_name}", self.stop
        )
        try:
            self._rows = self._begin()
            self._pieces, self._unwritten = self.folder.noted()
            self._write(self._rows)
            return self._prove()
        except (ServerFault, ArchiveFailure):
            self.stop.check()
            # Once: where the server is away, there is nothing to add.
            with (
                contextlib.suppress(ServerFault),
                connect(self.connection, role="archive") as session,
            ):
                self._require_same_columns(session)
            raise
        finally:
            self._spark.close()

    def require_unchanged(self, proved: Archived) -> None:
        """Have the server hash the table again; ArchiveFailure where it has other rows by now."""
        archived, kept = total_of(self._hash_pieces())
        found = (archived.rows, kept.rows, archived.digits, kept.digits)
        if found != (proved.rows, proved.kept, *proved.hashes):
            raise ArchiveFailure(
                f"{self.what.table.full_name} has other rows than when its archive was proved"
                f" ({found[0] + found[1]}, and had {proved.rows + proved.kept}): somebody wrote to"
                " it",
                hint="see which of its rows are neither in the archive nor in the table; then"
                " spirit-py cleanup --drop-old drops it",
            )

    # -- writing

    def _begin(self) -> int:
        """Return how many rows a range has; Refusal where the folder holds something else."""
        table = self.what.table
        by = "" if self.by is None else f"{self.by.name} {self.by.value}"
        # Not the server's uuid: the same command carries on after a failover.
        parts = (digest_of(shape_of(table), table.name), self.what.wanted, by, self.born)
        # Another version keeps other texts beside: its pieces are not of this archive.
        texts = [
            one.name for one in self.what.stored.columns if one.beside and one.spark == "string"
        ]
        digest = digest_of(repr((*parts, *texts)), "")
        return self.folder.begin(digest, self._rows_of_a_range())

    def _rows_of_a_range(self) -> int:
        table = self.what.table
        whole = max(_FEWEST_ROWS, int(_FILE_BYTES / (table.row_bytes or _UNKNOWN_ROW_BYTES)))
        # Of a small table, too, every task reads a part.
        part = min(whole, max(_FEWEST_ROWS, table.estimated_rows // self.slots + 1))
        if part < whole:
            # The estimate may be from when the table had few rows, or none.
            most = _STALE * self.slots
            ranges = self.step(partial(self._cut, rows=part, within=KeyRange(), most=most))
            part = whole if ranges[-1].upper is not None else part
        return part

    @property
    def _whole(self) -> bool:
        return bool(self._pieces) and self._pieces[-1].upper is None

    def _write(self, rows: int) -> None:
        for number in self._unwritten:
            cut = partial(self._cut, rows=rows, within=self._pieces[number])
            self._write_piece(number, self._pieces[number], self.step(cut))
        while not self._whole:
            lower = self._pieces[-1].upper if self._pieces else None
            cut = partial(self._cut, rows=rows, within=KeyRange(lower=lower), most=self.slots)
            ranges = self.step(cut)
            piece = KeyRange(lower=lower, upper=ranges[-1].upper)
            shown = self._write_piece(len(self._pieces), piece, ranges, rows * len(ranges))
            self._pieces.append(piece)
            # Nothing says how many rows a range without an end has.
            bounded = sum(one.upper is not None for one in ranges)
            self.progress(max(0, rows * bounded - shown), "")

    def _cut(
        self, session: Session, *, rows: int, within: KeyRange, most: int | None = None
    ) -> list[KeyRange]:
        return list(islice(self.what.cut(session.query, rows, within), most))

    def _await_turn(self) -> None:
        """Wait until a piece may begin; raise the reason of a stop."""
        self.stop.check()
        self.turn()

    def _write_piece(
        self, number: int, piece: KeyRange, ranges: Sequence[KeyRange], most: int = 0
    ) -> int:
        """Write a piece; return how many of ``most`` rows were shown as done meanwhile."""
        self._await_turn()
        more = () if self.by is None else (self.by.text,)
        names = () if self.by is None else (self.by.name,)
        statements = [self.what.rows_of(one, more) for one in ranges]
        gathered = self.by is not None and self.step(partial(self._has_many_values, piece=piece))
        with (
            contextlib.closing(SentRows(self.connection, most)) as sent,
            self._spark.job("write rows", lambda: self.progress(sent.more(), "")),
        ):
            frame = self._spark.rows(self.connection, statements, self.what.stored, names)
            if gathered:
                frame = self._spark.gathered(frame, names, _FILE_BYTES)
            writer = frame.write.mode("overwrite")
            if self.what.stored.wide:
                # Otherwise a group of rows is at least a hundred, however long they are.
                writer = writer.option("parquet.block.size.row.check.min", "1")
                writer = writer.option("parquet.page.size.row.check.min", "1")
            writer = writer.partitionBy(*names) if names else writer
            writer.parquet(self.folder.place(WRITING))
        points.reach("archive.written")
        written = [one.name for one in self.folder.files(WRITING) if one.name.endswith("parquet")]
        for at, name in enumerate(written):
            if at % _MOVED_AT_ONCE == 0:
                self.stop.check()
                # What another run has proved by now must not be replaced.
                self.folder.require_own()
            parent, _, _ = name.rpartition("/")
            place = f"{parent}/" if parent else ""
            self.folder.move(f"{WRITING}/{name}", f"{place}rows-{number:06d}-{at:05d}.parquet")
        points.reach("archive.moved")
        self.folder.note(number, piece, written=True)
        self.folder.delete(WRITING)
        points.reach("archive.piece")
        return sent.shown

    def _has_many_values(self, session: Session, *, piece: KeyRange) -> bool:
        """Return whether each task would have a file for each of many values: those take longer.

        The first rows of the piece show it, unless equal values stand together in the key's order.
        """
        part = "" if self.by is None else self.by.text
        asked = self.what.values_of(piece, part, _SAMPLE_ROWS)
        return int(session.query(asked)[0][0]) >= _MANY_VALUES

    # -- the proof

    def _prove(self) -> Archived:
        points.reach("archive.prove")
        before = tuple(self.folder.data_files())
        sizes = {one.name: one.size for one in before}
        files = list(sizes)
        if strange := [name for name in files if piece_of(name) >= len(self._pieces)]:
            raise self.folder.refusal(f"{strange[0]} is not of this archive")
        self.progress(0, "reading the files back")
        # The table may be dropped then, and is gone for good on the server's disk.
        self.folder.settle(files)
        self.stop.check()
        in_files, rows_of_files, unread = self._read_back(files)
        on_server = self._hash_pieces()
        wrong = [
            number
            for number, (wanted, _) in enumerate(on_server)
            if wanted != in_files.get(number, {})
        ]
        if wrong:
            # What is gone from the table may be in these files alone.
            fewer = [n for n in wrong if _rows(on_server[n][0]) < _rows(in_files.get(n, {}))]
            self._forget(set(wrong).difference(fewer))
            raise ArchiveFailure(
                f"{counted(len(wrong), 'piece')} of {len(on_server)} in {self.folder.path} are not"
                f" what {self.what.table.full_name} has: the table was written meanwhile, or a"
                " file was damaged",
                hint=f"the files of {counted(len(fewer), 'piece')} have rows that the table has no"
                " more, perhaps the only copy, and are kept: see which; then name another folder"
                " with --archive-to, or delete this one"
                if fewer
                else "run the same command again: it writes these pieces anew, and keeps their"
                f" files of now in {REPLACED}; rows that are archived have to stay as they are"
                " until then",
                details=unread,
            )
        archived, kept = total_of(on_server)
        total = self.step(partial(_count, table=self.what.table.quoted))
        if total != archived.rows + kept.rows:
            # Where rows went, the next comparison finds of which piece, and keeps its files.
            self._forget(range(len(on_server)) if total > archived.rows + kept.rows else ())
            raise ArchiveFailure(
                f"{self.what.table.full_name} has {total} rows, and {archived.rows + kept.rows}"
                " were read: it was written meanwhile",
                hint="run the same command again",
            )
        self.step(self._require_same_columns)
        self.folder.require_own()
        result = Archived(
            folder=self.folder.path,
            rows=archived.rows,
            kept=kept.rows,
            files=len(files),
            bytes=sum(sizes[name] for name in files),
            hashes=(archived.digits, kept.digits),
        )
        listed = [
            {"name": name, "rows": rows_of_files.get(name, 0), "bytes": sizes[name]}
            for name in files
        ]
        manifest = manifest_of(
            self.what, result, listed, server=self.step(server_facts), kept=self.kept, by=self.by
        )
        if same := self.folder.says_the_same(manifest):
            # Otherwise a kill at the wrong moment would leave a proved archive without it.
            manifest = same
        else:
            self.folder.write(MANIFEST, manifest)
        points.reach("archive.proved")
        return replace(result, listing=before, manifest=manifest)

    def _read_back(
        self, files: Sequence[str]
    ) -> tuple[dict[int, ByFolder], dict[str, int], tuple[str, ...]]:
        """Return rows and hash of each piece and folder, rows of each file, what is unreadable.

        Where they cannot be read together, each piece is read by itself, to know which is damaged.
        """
        try:
            return (*self._tallies(files), ())
        except ArchiveFailure:
            with self._spark.job("work"):
                self._spark.try_it()
        pieces, rows = self._tallies(())
        unread: list[str] = []
        for number in range(len(self._pieces)):
            try:
                own = self._tallies([name for name in files if piece_of(name) == number])
            except ArchiveFailure as error:
                unread.append(error.message)
            else:
                pieces |= own[0]
                rows |= own[1]
        return pieces, rows, tuple(unread[:_UNREAD_SHOWN])

    def _tallies(self, files: Sequence[str]) -> tuple[dict[int, ByFolder], dict[str, int]]:
        pieces: dict[int, ByFolder] = defaultdict(dict)
        rows: dict[str, int] = {}
        if not files:
            return pieces, rows
        stored = self.what.stored
        paths = [self.folder.place(name) for name in files]
        own = {name.rpartition("/")[2]: name for name in files}
        with self._spark.job("read the files back", self._show_parts):
            found = self._spark.sums(paths, stored.read_hash, wide=stored.wide)
        for file, count, hashes in found:
            name = own[str(file).rpartition("/")[2]]
            rows[name] = int(count)
            add(pieces[piece_of(name)], folder_of(name), Tally(int(count), int(hashes)))
        return pieces, rows

    def _hash_pieces(self) -> list[tuple[ByFolder, Tally]]:
        """Have the server count and hash each piece: the wanted rows, and the others."""
        found: dict[int, tuple[ByFolder, Tally]] = {}
        waiting = iter(enumerate(self._pieces))
        slots = min(self.slots, len(self._pieces))

        def work(_rank: int) -> None:
            for number, piece in waiting:
                done = f"{len(found)} of {counted(len(self._pieces), 'piece')}"
                self.progress(0, f"counting and hashing the table's rows: {done}")
                try:
                    found[number] = self._hashed(piece)
                except BaseException:
                    # It fails: the others end with the piece that they have.
                    list(waiting)
                    raise

        outcomes = self.engine.run_gang(
            work, size=slots, group="archive", description="hashes of the table's rows"
        )
        for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error
        return [found[number] for number in range(len(self._pieces))]

    def _hashed(self, piece: KeyRange) -> tuple[ByFolder, Tally]:
        """Hash a piece in ranges of a file each: no statement holds up a global lock for long."""
        part = "" if self.by is None else self.by.text

        def rows(session: SqlSession, statement: str) -> list[tuple[Any, ...]]:
            return session.query(statement)

        found: list[tuple[Any, ...]] = []
        left: KeyRange | None = piece
        while left is not None:
            self._await_turn()
            (one,) = self.step(partial(self._cut, rows=self._rows, within=left, most=1))
            found += self.step(partial(rows, statement=self.what.hashes_of(one, part)))
            left = None if one.upper == piece.upper else replace(left, lower=one.upper)
        return tallies_of(found)

    def _require_same_columns(self, session: Session) -> None:
        """Raise an ArchiveFailure where the files have not every column that there is now."""
        table = self.what.table
        now = read_table(session, table.schema, table.name)
        if now is not None and now.columns == table.columns:
            return
        what = "altered" if now is not None else "dropped or renamed"
        raise ArchiveFailure(
            f"{table.full_name} was {what} while it was archived: {self.folder.path} has the"
            " columns of before, and proves nothing",
            hint="delete that folder, or name another one; then run the command again",
        )

    def _forget(self, pieces: Iterable[int]) -> None:
        """Have the next run write pieces again; never those of an archive that is proved."""
        if self.folder.proved:
            raise self.folder.refusal(
                "it holds a proved archive, and its files or the table are others by now"
            )
        for number in pieces:
            self.folder.note(number, self._pieces[number], written=False)

    def _show_parts(self) -> None:
        done, total = self._spark.parts()
        if total:
            self.progress(0, f"reading the files back: {done} of {counted(total, 'part')}")


def _rows(tallies: ByFolder) -> int:
    return sum(one.rows for one in tallies.values())


def _count(session: SqlSession, table: str) -> int:
    return int(session.query(f"SELECT COUNT(*) FROM {table}")[0][0])
