"""A case of ``tests/cases``: a directory of SQL and an ``expect.toml``, read into frozen data.

``table.sql``    session settings, CREATE TABLE and rows; run once, statement by statement.
``alter.sql``    the clauses after ``ALTER TABLE t``; or ``statement.sql``, a whole statement
                 with ``{table}`` for the table's name.
``during.sql``   what applications do meanwhile. Every ``-- @writer`` begins a session of its
                 own that repeats its statements from before the migration until after the
                 swap. Statements end with ``;`` at a line's end. Each round sets ``@i`` (0, 1,
                 2, ...), ``@n`` (unique over rounds and writers), ``@r`` and ``@s`` (random
                 below 10^6). Marks inside a writer:
                 ``-- @session SQL``       run once at the session's start;
                 ``-- @allow 1062 1213``   error codes that are part of the game;
                 ``-- @after``             begins the statements that take over once the table
                                           has its new definition (without it the same go on);
                 ``-- @meanwhile``         begins statements that run once, while the first
                                           rows are being copied.
``probes.sql``   what proves that triggers and foreign keys work: run once in the end, on the
                 schema and on the twin, see :mod:`tests.oracle.probes`. A case with triggers or
                 foreign keys that is expected to succeed must have some. Marks before a statement:
                 ``-- @changes a b``       tables whose rows this statement must change;
                 ``-- @refused 1452``      the error that it must get.
``invariants.sql`` SELECTs that must return no row at the end.
``expect.toml``  see :class:`Expectation`; may be missing. Its table ``[after]`` holds what is
                 another value when the writers begin after the last checksum.

Every table that ``table.sql`` makes is compared with the twin's, and so are triggers and foreign
keys. ``{schema}`` stands for the schema of the case, ``{other}`` for a second one that is made
where the case names it. A body of a trigger that begins with ``BEGIN`` at the end of a line goes on
until a line ``END;``.

A case is played twice: with its writers at work all the time, and with all its writes after the
last checksum (:meth:`Case.after`), where nothing but the change feed can make the table right.
"""

from __future__ import annotations

import enum
import functools
import re
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

_BODY = re.compile(r"(\bBEGIN[ \t]*\n.*?^END);", re.DOTALL | re.MULTILINE)
_ATTACHED = re.compile(r"\bCREATE\b[^;]*?\bTRIGGER\b|\bREFERENCES\b", re.IGNORECASE)
FOLDER = Path(__file__).resolve().parent.parent / "cases"


class Timing(enum.Enum):
    """When the writers of a case are at work; each of them goes on through the swap."""

    #: From before the migration on.
    DURING = enum.auto()
    #: From the moment on at which the last checksum is over and the swap waits for its sentinel.
    AFTER = enum.auto()
    #: From before the migration on, and on after the last checksum while the swap waits.
    THROUGHOUT = enum.auto()

    @property
    def deferred(self) -> bool:
        """Whether the swap waits for a sentinel."""
        return self is not Timing.DURING


@dataclass(frozen=True, kw_only=True)
class Writer:
    """One application session: what it repeats before and after the swap."""

    session: tuple[str, ...] = ()
    allowed: frozenset[int] = frozenset()
    during: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    meanwhile: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A statement that shows a trigger or a foreign key at work.

    Attributes:
        changes: tables whose rows it must change.
        refused: the error that it must get; 0 for success.
    """

    statement: str
    changes: tuple[str, ...] = ()
    refused: int = 0


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What must come out.

    Attributes:
        exit_code: of the process; 0 means the table is changed, anything else that it is not.
        message: parts of what the operator reads (error, details and hint, or the summary).
        algorithm: ``copy``, ``instant`` or ``inplace``; not looked at when the migration fails.
        arguments: more of the command line.
        shortcut: let the program take the server's own quick way where there is one.
        server: global variables of the server while the case runs; such a case runs alone.
        ignore: columns whose values the server makes up row by row.
        tables: the tables that are changed, where they are several; they must be swapped by one
            statement.
        accounts: accounts that are made before table.sql is run, with all privileges on the
            schemas, and dropped in the end: definers of triggers; with ``{schema}`` in their names.
        moment: a new column that has the time of the migration in the rows from before the swap.
        native_session: statements before the twin's ALTER, for other settings than the server's.
        native: clauses of the twin's ALTER where they are not the case's own, or whole statements.
        keep: which rows the new table has, as ``--keep`` says it; the twin deletes all others.
        keyless: replay into a twin without keys.
        rows_from_setup: the twin gets its first rows from table.sql, not from the binlog, because
            they were written under an earlier definition.
        auto_increment: what the table's counter must be at least.
        auto_increment_most: what it must be at most.
        report: fields of the report that must have these values.
        left_tables: what else is in the schema afterwards.
        effects: every statement of the writers must have changed a row (off where that is chance).
        stalled: a chunk must have been held up in the middle of its copy.
        before: values of these fields for servers before ``version``, such as "9.6".
        after: values of these fields for the run whose writes come after the last checksum.
    """

    table: str = "t"
    exit_code: int = 0
    message: tuple[str, ...] = ()
    algorithm: str = "copy"
    arguments: tuple[str, ...] = ()
    shortcut: bool = False
    server: dict[str, Any] = field(default_factory=dict)
    ignore: frozenset[str] = frozenset()
    tables: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    moment: str = ""
    native_session: tuple[str, ...] = ()
    native: str = ""
    keep: str = ""
    keyless: bool = True
    rows_from_setup: bool = False
    auto_increment: int = 0
    auto_increment_most: int = 0
    report: dict[str, Any] = field(default_factory=dict)
    left_tables: tuple[str, ...] = ()
    effects: bool = True
    stalled: bool = False
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One migration of one table shape under one load."""

    name: str
    setup: tuple[str, ...]
    alter: str
    statement: str
    writers: tuple[Writer, ...]
    expect: Expectation
    probes: tuple[Probe, ...] = ()
    invariants: tuple[str, ...] = ()
    timing: Timing = Timing.DURING

    def on(self, version: tuple[int, ...]) -> Case:
        """Return the case with what a server of this version must do."""
        given = dict(self.expect.before)
        since = given.pop("version", "0")
        if version >= tuple(int(part) for part in since.split(".")):
            return self
        return replace(self, expect=replace(self.expect, **given))

    @property
    def changed_tables(self) -> tuple[str, ...]:
        """Return the tables that get a new definition."""
        return self.expect.tables or (self.expect.table,)

    @property
    def other_schema(self) -> bool:
        """Whether the case has tables in a second schema."""
        return "{other}" in repr(self)

    def placed(self, schema: str) -> Case:
        """Return the case with the names of its schemas put in; the oracle has its own."""

        def put(texts: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(place(text, schema) for text in texts)

        writers = tuple(
            replace(
                writer,
                session=put(writer.session),
                during=put(writer.during),
                after=put(writer.after),
                meanwhile=put(writer.meanwhile),
            )
            for writer in self.writers
        )
        return replace(
            self,
            setup=put(self.setup),
            alter=place(self.alter, schema),
            statement=place(self.statement, schema),
            invariants=put(self.invariants),
            writers=writers,
        )

    def after(self) -> Case | None:
        """Return the case with all its writes after the last checksum.

        A change that the server could make in place is copied when its swap is deferred. None for
        a case whose migration ends before it waits: it fails, and no write is the cause.
        """
        fails = self.expect.exit_code != 0
        if fails and not any(writer.meanwhile for writer in self.writers):
            return None
        given = {"algorithm": "copy", **self.expect.after}
        return replace(self, expect=replace(self.expect, **given), timing=Timing.AFTER)

    @property
    def named_zones(self) -> bool:
        """Whether the case needs the time zones of :mod:`tests.oracle.zones`."""
        return "Test/" in repr(self)

    def native_statement(self) -> str:
        """Return what the server would run itself, with ``{table}`` for the table's name."""
        if keep := self.expect.keep:
            rest = replace(self, expect=replace(self.expect, keep="")).native_statement()
            return f"DELETE FROM {{table}} WHERE NOT (({keep}) IS TRUE);\n{rest}"
        if self.expect.native.lstrip().upper().startswith("ALTER TABLE"):
            return self.expect.native
        if self.statement:
            return (
                f"{self.statement} ALGORITHM=COPY" if _is_create(self.statement) else self.statement
            )
        clauses = self.expect.native or self.alter
        partitioning = re.match(r"(PARTITION|REMOVE\s+PARTITIONING)\b", clauses, re.IGNORECASE)
        separator = " " if partitioning else ", "
        return f"ALTER TABLE {{table}} ALGORITHM=COPY{separator}{clauses}"


def _is_create(statement: str) -> bool:
    return statement.lstrip().upper().startswith("CREATE")


@functools.cache
def load_all() -> tuple[Case, ...]:
    """Read every case, in name order, once in a process."""
    return tuple(load(path) for path in sorted(FOLDER.iterdir()) if path.is_dir())


def load(folder: Path) -> Case:
    """Read one case.

    Raises:
        ValueError: when a file is missing or cannot be understood.
    """
    statement = _text(folder / "statement.sql")
    alter = _text(folder / "alter.sql")
    if bool(statement) == bool(alter):
        raise ValueError(f"{folder.name}: either alter.sql or statement.sql")
    expectation = _frozen(tomllib.loads(_text(folder / "expect.toml")))
    for run in ("before", "after"):
        expectation[run] = _frozen(expectation.get(run, {}))
    case = Case(
        name=folder.name,
        setup=statements((folder / "table.sql").read_text(encoding="utf-8")),
        alter=alter,
        statement=statement,
        writers=_writers(_text(folder / "during.sql")),
        probes=_probes(_text(folder / "probes.sql")),
        invariants=statements(_text(folder / "invariants.sql")),
        expect=Expectation(**expectation),
    )
    if not case.writers:
        raise ValueError(f"{folder.name}: during.sql has no writer")
    if not case.expect.exit_code and not case.probes and _ATTACHED.search(" ".join(case.setup)):
        raise ValueError(f"{folder.name}: nothing proves its triggers and foreign keys alive")
    return case


def _frozen(given: dict[str, Any]) -> dict[str, Any]:
    """Return fields of an :class:`Expectation` with TOML's lists as what the fields hold."""
    return {
        name: (frozenset if name == "ignore" else tuple)(value)
        if isinstance(value, list)
        else value
        for name, value in given.items()
    }


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip().removesuffix(";") if path.exists() else ""


def place(text: str, schema: str) -> str:
    """Put in the names of the schemas."""
    return text.replace("{schema}", schema).replace("{other}", other(schema))


def other(schema: str) -> str:
    """Return the name of the second schema of a case."""
    return f"{schema}_other"


def statements(text: str) -> tuple[str, ...]:
    """Split SQL at semicolons that end a line; comment lines are left out.

    The body of a trigger from a ``BEGIN`` at a line's end to ``END;`` in a line of its own is
    not split, and its comments stay.
    """
    bodies: list[str] = []

    def kept(found: re.Match[str]) -> str:
        bodies.append(found[1])
        return f"\0{len(bodies) - 1}\0;"

    text = _BODY.sub(kept, text)
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("-- "))
    parts = [part.strip() for part in re.split(r";[ \t]*(?:\n|$)", lines)]
    return tuple(re.sub("\0(\\d+)\0", lambda m: bodies[int(m[1])], p) for p in parts if p)


def _probes(text: str) -> tuple[Probe, ...]:
    """Read statements, each with the marks in the lines before it."""
    found = []
    for part in re.split(r";[ \t]*(?:\n|$)", text):
        for statement in statements(part):
            changes = " ".join(re.findall(r"^-- @changes (.*)$", part, re.MULTILINE)).split()
            refused = re.findall(r"^-- @refused (\d+)$", part, re.MULTILINE)
            found.append(
                Probe(
                    statement=statement,
                    changes=tuple(changes),
                    refused=int(refused[0]) if refused else 0,
                )
            )
    return tuple(found)


def _writers(text: str) -> tuple[Writer, ...]:
    parts = re.split(r"^-- @writer.*$", text, flags=re.MULTILINE)
    if parts[0].strip():
        raise ValueError("during.sql must begin with -- @writer")
    return tuple(_writer(part) for part in parts[1:])


def _writer(text: str) -> Writer:
    parts = re.split(r"^-- @(after|meanwhile)$", text, flags=re.MULTILINE)
    named = {name: statements(part) for name, part in zip(parts[1::2], parts[2::2], strict=True)}
    during = statements(parts[0])
    codes = re.findall(r"^-- @allow (.*)$", text, re.MULTILINE)
    return Writer(
        session=tuple(re.findall(r"^-- @session (.*?);?$", text, re.MULTILINE)),
        allowed=frozenset(int(code) for line in codes for code in line.split()),
        during=during,
        after=named.get("after", during),
        meanwhile=named.get("meanwhile", ()),
    )
