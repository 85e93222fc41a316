"""What the folder of an archive holds: the notes of its pieces, and the files of each.

Anybody who can write there could have left anything: what is not of this archive is refused (R26).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from spirit_py import __version__
from spirit_py.archiving.columns import HASH_DIGITS
from spirit_py.archiving.folder import ArchiveFailure, File, Folder
from spirit_py.archiving.ranges import NO_VALUE
from spirit_py.checkpoint.codec import UnreadableCheckpoint, from_text, to_text
from spirit_py.chunk.chunk import KeyRange, same_bound
from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spirit_py.archiving.ranges import Partitioning, ReadTable
    from spirit_py.contracts import SqlSession

MANIFEST: Final = "_manifest.json"
"""What is proved, beside the files; Spark and others pass over names with an underscore."""
#: Of a range: more than a table of this server may have.
_MOST_ROWS: Final = 1 << 48
#: What a later proof of the same rows has otherwise.
_OF_THE_PROOF: Final = ("program", "proved_at", "server")
_NOTES: Final = "_archive"
WRITING: Final = f"{_NOTES}/writing"
"""Where Spark writes a piece."""
REPLACED: Final = f"{_NOTES}/replaced"
"""Where the files of a piece go that is written anew."""
_BEGUN: Final = f"{_NOTES}/begun.json"
#: Which run writes here.
_RUN: Final = f"{_NOTES}/run.json"
_OURS: Final = re.compile(r"(?:([^/=]+)=[^/]*/)?rows-(\d{6})-\d{5,}\.parquet")
_NOTED: Final = re.compile(rf"{_NOTES}/(\d{{6}})\.json")
#: A note that was stopped before it had its name.
_UNFINISHED: Final = re.compile(rf"{_NOTES}/[a-z0-9]+\.json\.[0-9a-f]+\.new")


@dataclass(frozen=True, kw_only=True)
class Begun:
    """What a folder's archive is of: a digest of all that decides its rows, and rows of a range."""

    table: str
    digest: str
    rows: int

    def __post_init__(self) -> None:
        if not 0 < self.rows < _MOST_ROWS:
            raise ValueError(f"a range has {self.rows} rows")


@dataclass(frozen=True, kw_only=True)
class PieceNoted:
    """A piece: the literals of its bounds, empty for an open end, and whether it is there."""

    lower: tuple[str, ...] = ()
    upper: tuple[str, ...] = ()
    written: bool = True


class ArchiveFolder(Folder):
    """The folder of one table's archive; ``parted_by`` is the column of its folders, if any."""

    def __init__(
        self, context: Any, path: str, what: ReadTable, *, parted_by: str | None = None
    ) -> None:
        super().__init__(context, path)
        self._what = what
        self._parted_by = parted_by
        self._run = secrets.token_hex(8)

    def begin(self, digest: str, rows: int) -> int:
        """Note that an archive begins, with so many rows in a range; return those of a begun one.

        Refusal where the folder holds something else.
        """
        text = self.read(_BEGUN)
        if text is not None:
            try:
                begun = from_text(text, Begun)
            except UnreadableCheckpoint as error:
                raise self.refusal(f"another version began it: {error}") from error
            if begun.digest != digest:
                raise self.refusal(f"it holds another archive, of {begun.table}")
            rows = begun.rows
        else:
            if not all(_UNFINISHED.fullmatch(one.name) for one in self.files()):
                raise self.refusal("it is not empty")
            table = self._what.table.full_name
            self.write(_BEGUN, to_text(Begun(table=table, digest=digest, rows=rows)))
        # Before the notes are read: who writes here already learns of it before its proof counts.
        self.write(_RUN, self._run)
        return rows

    def require_own(self) -> None:
        """Raise an ArchiveFailure where another run has begun to write here meanwhile."""
        if self.read(_RUN) != self._run:
            raise ArchiveFailure(
                f"another run has begun to write to {self.path}: what was read back may be gone",
                hint="let that one end; then run the same command again, or name another folder for"
                " each server with --archive-to",
            )

    def refusal(self, why: str) -> Refusal:
        """Return the refusal to archive to this folder."""
        return Refusal(
            f"nothing can be archived to {self.path}: {why}",
            hint="name another folder with --archive-to, then run the same command again",
            error_code=ErrorCode.ARCHIVE_REFUSED,
        )

    @property
    def proved(self) -> bool:
        """Whether it holds a proved archive, which may be the only copy by now."""
        return self.read(MANIFEST) is not None

    def says_the_same(self, manifest: str) -> str:
        """Return the manifest that is there, where it differs in when it was proved at most."""
        found = self.read(MANIFEST)
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            one, other = (json.loads(text) for text in (found or "", manifest))
            if {**one, **dict.fromkeys(_OF_THE_PROOF)} == {**other, **dict.fromkeys(_OF_THE_PROOF)}:
                return found or ""
        return ""

    def noted(self) -> tuple[list[KeyRange], list[int]]:
        """Return the pieces, from the first on, and which of them are not written.

        Files of a piece that is to be written anew, or that has no note, are put aside. Refusal
        where a piece is not written of a proved archive, or lacks its note.
        """
        noted: list[KeyRange] = []
        unwritten: list[int] = []
        while (text := self.read(_note(len(noted)))) is not None:
            try:
                piece = from_text(text, PieceNoted)
                found = KeyRange(
                    lower=self._what.bound(piece.lower), upper=self._what.bound(piece.upper)
                )
            except (UnreadableCheckpoint, ValueError) as error:
                raise self.refusal(f"{_note(len(noted))} is no note of ours: {error}") from error
            before = noted[-1].upper if noted else None
            if not same_bound(found.lower, before) or (noted and before is None):
                raise self.refusal(f"{_note(len(noted))} does not follow the note before")
            unwritten += [] if piece.written else [len(noted)]
            noted.append(found)
        whole = bool(noted) and noted[-1].upper is None and not unwritten
        if self.proved and not whole:
            # It may be the only copy by now.
            raise self.refusal(f"it holds a proved archive, and {_note(len(noted))} is not there")
        files = self.data_files()
        notes = (_NOTED.fullmatch(one.name) for one in self.files())
        later = [int(one[1]) for one in notes if one] + [piece_of(one.name) for one in files]
        if max(later, default=0) > len(noted):
            # Not every file system replaces a note in one step.
            raise self.refusal(f"{_note(len(noted))} is not there, and later pieces are")
        # The first that is not noted, too: its note may have been lost.
        anew = {*unwritten, len(noted)}
        for one in files:
            if piece_of(one.name) in anew:
                # They may have the only copy of rows, and are none for readers of the folder.
                self.move(one.name, f"{REPLACED}/{self._run}/{one.name}.old")
        return noted, unwritten

    def note(self, number: int, piece: KeyRange, *, written: bool) -> None:
        """Note a piece, and whether its files are there."""
        lower, upper = (() if at is None else at.literals for at in (piece.lower, piece.upper))
        self.write(_note(number), to_text(PieceNoted(lower=lower, upper=upper, written=written)))

    def data_files(self) -> list[File]:
        """List the files with rows; Refusal where another one is there that readers would read."""
        names: dict[str, File] = {}
        for one in self.files():
            own = one.name.rpartition("/")[2]
            if not is_read(one.name):
                continue
            found = _OURS.fullmatch(one.name)
            # In whatever folder, a piece's files have numbers of their own.
            if found is None or found[1] != self._parted_by or own in names:
                raise self.refusal(f"{one.name} is not of this archive")
            names[own] = one
        return list(names.values())


def is_read(name: str) -> bool:
    """Return whether readers of the folder read a file: others begin with a dot or underscore."""
    return not name.startswith("_") and not name.rpartition("/")[2].startswith((".", "_"))


def piece_of(name: str) -> int:
    """Return the number of the piece that a file is of; -1 for one that is of none."""
    found = _OURS.fullmatch(name)
    return int(found[2]) if found else -1


_CODED: Final = re.compile(r"%([0-9A-F]{2})")


def folder_of(name: str) -> str:
    """Return the value that a file's folder stands for; empty for a file in none."""
    folder, _, _ = name.rpartition("/")
    _, _, value = folder.partition("=")
    # As Spark writes what a folder's name cannot hold, such as a colon.
    return _CODED.sub(lambda found: chr(int(found[1], 16)), value)


def _note(number: int) -> str:
    return f"{_NOTES}/{number:06d}.json"


@dataclass(frozen=True, kw_only=True)
class Archived:
    """What is proved of one table; ``hashes`` are of the rows in the files and of the others."""

    folder: str
    rows: int
    kept: int
    files: int
    bytes: int
    hashes: tuple[str, str]
    #: Each file of rows as it was before it was read back, and the manifest's text.
    listing: tuple[File, ...] = ()
    manifest: str = ""

    @property
    def digest(self) -> str:
        """A digest of the listing and the manifest, for a later run."""
        return _digest_of(self.listing, self.manifest)


def require_there(context: Any, made: Archived) -> None:
    """Raise an ArchiveFailure where a file of a proved archive is gone, or was changed, or added.

    Nothing is read but the manifest: size and time of a file are believed.
    """
    folder, there = _rows_in(context, made.folder)
    gone = sorted({one.name for one in set(there).symmetric_difference(made.listing)})
    if folder.read(MANIFEST) != made.manifest:
        gone.append(MANIFEST)
    if gone:
        raise ArchiveFailure(
            f"{counted(len(gone), 'file')} of the archive in {made.folder} went away after the"
            f" proof, came, or changed: {gone[0]}",
            hint="name another folder with --archive-to and run the same command again; where the"
            " archive is kept elsewhere by now, spirit-py cleanup --drop-old drops the old table",
        )


def require_noted(context: Any, path: str, digest: str) -> None:
    """Raise an ArchiveFailure where a folder is not as an earlier run had it before its drop."""
    folder, there = _rows_in(context, path)
    if _digest_of(there, folder.read(MANIFEST) or "") != digest:
        raise ArchiveFailure(
            f"the archive in {folder.path} is not as it was when the drop began: a file went away,"
            " came, or changed",
            hint="name the folder of that archive with --archive-to; where it is kept elsewhere by"
            " now, spirit-py cleanup --drop-old drops what is left",
        )


def _rows_in(context: Any, path: str) -> tuple[Folder, list[File]]:
    folder = Folder(context, path)
    return folder, [one for one in folder.files() if is_read(one.name)]


def _digest_of(listing: Iterable[File], manifest: str) -> str:
    files = sorted((one.name, one.size, one.changed) for one in listing)
    return hashlib.sha256(repr((files, manifest)).encode(errors="replace")).hexdigest()


@dataclass(frozen=True)
class Tally:
    """Rows, and the sum of their hashes, by which equal rows count, too."""

    rows: int = 0
    hashes: int = 0

    def plus(self, other: Tally) -> Tally:
        """Return the tally of both."""
        return Tally(self.rows + other.rows, self.hashes + other.hashes)

    @property
    def digits(self) -> str:
        """The sum as it is shown: as many digits as one hash has."""
        return f"{self.hashes % 16**HASH_DIGITS:0{HASH_DIGITS}X}"


ByFolder: TypeAlias = dict[str, Tally]
"""The rows of each folder, by its value; of NULL, and of the empty text, it is empty."""


def add(tallies: ByFolder, value: str, more: Tally) -> None:
    """Add rows to those of a value's folder: some values have one."""
    value = "" if value == NO_VALUE else value
    tallies[value] = tallies.get(value, Tally()).plus(more)


def total_of(pieces: Iterable[tuple[ByFolder, Tally]]) -> tuple[Tally, Tally]:
    """Return the wanted rows of all folders of all pieces, and the others."""
    archived = kept = Tally()
    for wanted, others in pieces:
        kept = kept.plus(others)
        for one in wanted.values():
            archived = archived.plus(one)
    return archived, kept


def tallies_of(found: Iterable[tuple[Any, ...]]) -> tuple[ByFolder, Tally]:
    """Read the rows of :meth:`ReadTable.hashes_of`: the wanted rows by folder, and the others."""
    archived: ByFolder = {}
    others = Tally()
    for wanted, digits, count, hashes in found:
        tally = Tally(int(count), int(hashes))
        if int(wanted):
            # Of what is no text there is a digest.
            add(archived, bytes.fromhex(digits or "").decode(), tally)
        else:
            others = others.plus(tally)
    return archived, others


def manifest_of(
    what: ReadTable,
    result: Archived,
    files: Sequence[dict[str, Any]],
    *,
    server: dict[str, str],
    kept: str,
    by: Partitioning | None,
) -> str:
    """Render the manifest of an archive that is proved now."""
    table = what.table
    shown = {
        "format": 1,
        "program": f"spirit-py {__version__}",
        "proved_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "table": table.full_name,
        "server": server,
        "definition": table.create_sql,
        "kept": kept,
        "columns": [
            {"name": one.name, "mysql": column.column_type, "spark": one.spark}
            for one, column in zip(what.stored.columns, table.columns, strict=True)
        ],
        "beside": what.stored.beside,
        "archived_by": None if by is None else {by.name: by.value},
        "rows": {"archived": result.rows, "kept": result.kept},
        "hashes": dict(zip(("archived", "kept"), result.hashes, strict=True)),
        "files": list(files),
    }
    return json.dumps(shown, indent=2, ensure_ascii=False) + "\n"


def server_facts(session: SqlSession) -> dict[str, str]:
    """Return which server an archive is of, and what it has executed."""
    uuid, version, executed = session.query(
        "SELECT @@GLOBAL.server_uuid, VERSION(), @@GLOBAL.gtid_executed"
    )[0]
    return {"uuid": uuid, "version": version, "gtid_executed": str(executed).replace("\n", "")}
