"""Events of the stream become records: order, positions, what is said twice and what never."""

from __future__ import annotations

import ast
import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from spirit_py.binlog import wire
from spirit_py.binlog.cascades import BY_SQL_LAYER, UNCHECKED
from spirit_py.binlog.codec.rows import RowChange
from spirit_py.binlog.events import (
    Advanced,
    Began,
    Committed,
    Doubt,
    Failed,
    Place,
    Restarted,
    RowsChanged,
    StatementSeen,
    XaDecided,
    XaPrepared,
)
from spirit_py.binlog.parser import binlog_reset
from spirit_py.binlog.position import FileFrontier, FilePlace
from spirit_py.binlog.sessions import GIVE_UP
from spirit_py.binlog.writes import StatementWrites
from spirit_py.codes import ErrorCode
from spirit_py.config import ConnectionOptions
from spirit_py.errors import (
    BinlogUnreadable,
    FeedFailure,
    FeedSilent,
    HiddenChange,
    HistoryLost,
    NeverExecuted,
    PositionNotFound,
    SchemaChanged,
    ServerFault,
    SpiritError,
    StatementWrite,
    UnreadableChange,
)
from spirit_py.mysql.connect import another_server
from spirit_py.mysql.replication import WITHOUT_FILTER
from spirit_py.table.schema import TableSchema
from spirit_py.watch import command
from spirit_py.watch import source as watched
from spirit_py.watch.definitions import Definitions
from spirit_py.watch.follower import Follower
from spirit_py.watch.records import Progress, Scope
from spirit_py.watch.source import ScopeSource

if TYPE_CHECKING:
    from collections.abc import Iterator

UUID = "16e8969d-e4d3-11f1-b00c-02fc00000001"


class Codec:
    """A codec whose rows are there already: as many inserts as the body has bytes."""

    key_names = frozenset[str]()
    schema = TableSchema(schema="s", name="t", engine="", columns=(), indexes=())

    def rows(self, _: int, body: bytes) -> list[RowChange]:
        """Return the changes."""
        image: Any = self
        return [RowChange("insert", None, image)] * len(body)

    @property
    def codec(self) -> Codec:
        """The codec of an image, which this is as well."""
        return self

    def values(self) -> dict[str, Any]:
        """No columns."""
        return {}


CODEC: Any = Codec()


class Run:
    """A follower and what it printed."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.flushed = 0
        self.now = 0.0
        start = FileFrontier(UUID, FilePlace("b.000001", 0))
        definitions = Definitions(lambda _: None, start.copy)
        scope = Scope("s", "", ignore_case=False)
        self.follower = Follower(
            progress=Progress(start),
            scope=scope,
            definitions=definitions,
            out=self.records.append,
            flush=self._flush,
            forget=lambda: None,
            writes=StatementWrites(
                [("o", "t")],
                scope.covers,
                ignore_case=False,
                onward="go on with {}",
                give_up="follow from later",
            ),
            heartbeat=10.0,
            clock=lambda: self.now,
        )

    def _flush(self) -> None:
        self.flushed = len(self.records)

    def take(self, *events: Any) -> list[str]:
        """Deliver events; return the kinds printed for them."""
        before = len(self.records)
        for event in events:
            self.follower.deliver(event)
        return [found["kind"] for found in self.records[before:]]

    def positions(self) -> list[int]:
        """Return the offset of the position of each record."""
        return [int(found["position"].rpartition(";")[2]) for found in self.records]


@pytest.fixture
def run() -> Run:
    """Return a follower of schema ``s``."""
    return Run()


def at(offset: int) -> Place:
    """Return a place."""
    return Place("b.000001", offset)


def rows(offset: int, count: int = 1) -> RowsChanged:
    """Return a rows event."""
    return RowsChanged(("s", "t"), 30, b"x" * count, CODEC, at(offset))


def statement(offset: int, sql: str, schema: str = "s") -> StatementSeen:
    """Return a statement."""
    return StatementSeen(at(offset), schema, sql, 9)


def test_positions_move_with_the_end_of_a_transaction(run: Run) -> None:
    """R7: going on from a row's position brings its whole transaction again."""
    kinds = run.take(Began(at(10)), rows(20, 2), rows(30), Committed(at(40)))
    assert kinds == ["begin", "insert", "insert", "insert", "commit"]
    assert run.positions() == [0, 0, 0, 0, 40]
    assert [found["offset"] for found in run.records] == [10, 20, 20, 30, 40]
    assert run.flushed == 5


@pytest.mark.parametrize("doubt", [Doubt.BESIDE, Doubt.CASCADED])
def test_rows_that_the_server_may_have_rolled_back_are_marked(run: Run, doubt: Doubt) -> None:
    """Each such row, and the commit if a cascade may have been in the transaction."""
    uncertain = replace(rows(20), doubt=doubt)
    run.take(Began(at(10)), rows(20), uncertain, Committed(at(40), cascaded=True))
    run.take(Began(at(50)), uncertain, Committed(at(60)))
    run.take(Began(at(70)), rows(80), Committed(at(90), cascaded=True))
    run.take(Began(at(90), "x"), uncertain, XaPrepared(at(95), "x"))
    run.take(XaDecided(at(99), "x", commit=True))
    marked = [found.get("doubt", False) for found in run.records]
    assert marked == [
        *(False, False, True, True),
        *(False, True, False),
        *(False, False, False),
        *(False, False, True, True),
    ]


def test_a_table_that_is_learned_behind_the_start_is_in_doubt() -> None:
    """Alone in its statement, a table that refers to itself has no other sign of a cascade."""
    start = FileFrontier(UUID, FilePlace("b.000001", 0))
    key = "CONSTRAINT `k` FOREIGN KEY (`p`) REFERENCES `t` (`id`) ON DELETE CASCADE"
    itself = replace(Codec.schema, create_sql=f"CREATE TABLE `t` (\n  {key}\n)")
    source = ScopeSource.__new__(ScopeSource)
    source.scope, source.collations = Scope("s", "", ignore_case=False), {}
    source.definitions = Definitions(lambda _: itself, start.copy)
    cascades = source._parser((), start).cascades
    source.definitions.learn(("s", "t"))
    cascades.table_map(wire.name_key("s", "t"))
    flags = UNCHECKED | BY_SQL_LAYER
    assert cascades.judge(("s", "t"), wire.DELETE_ROWS, flags) is Doubt.CASCADED
    assert cascades.end()


@pytest.mark.parametrize(
    ("of", "code", "error"),
    [
        ("read_table", 2013, FeedSilent),
        ("read_table", 1205, FeedSilent),
        ("read_table", 1142, ServerFault),
        ("executed", 0, HistoryLost),
    ],
)
def test_a_fault_at_the_start_is_one_of_the_server(
    monkeypatch: pytest.MonkeyPatch, of: str, code: int, error: type[SpiritError]
) -> None:
    """No reader opens the stream again then, as behind the start."""
    session = SimpleNamespace(query=lambda _: [("s", "t")])
    source = ScopeSource.__new__(ScopeSource)
    source._control = cast("Any", SimpleNamespace(lend=lambda: nullcontext(session)))
    source._connection, source._unseen = ConnectionOptions(), ""
    source._warned, source.scope = set(), Scope("s", "", ignore_case=False)

    def fail(*_: object) -> None:
        raise ServerFault(code, "no", where="feed") if code else binlog_reset("it ends")

    monkeypatch.setattr(watched, "read_table", lambda *_: None)
    monkeypatch.setattr(watched if of == "read_table" else ScopeSource, of, fail)
    source.definitions = Definitions(source._definition, source._executed)
    with pytest.raises(error):
        source.learn()


def test_until_now_reads_on_to_a_definition_that_was_read_later(run: Run) -> None:
    """A DDL between the two may have given columns of printed rows other names."""
    now = FileFrontier(UUID, FilePlace("b.000001", 40))
    definitions = Definitions(lambda _: CODEC.schema, now.copy)
    run.follower.definitions = definitions
    nothing: Any = None
    watch = command._Watch(nothing, nothing, nothing, nothing)
    watch._target = now.copy()
    now.advance(at(60))
    run.take(Committed(at(30)))
    definitions.learn(("s", "t"))
    reached = []
    for offset in (40, 50, 60):
        run.take(Committed(at(offset)))
        reached.append(watch._reached(run.follower))
    assert reached == [False, False, True]


GO_ON = "go on with --from 'P'"
ANEW = "take a new snapshot, and follow from it, or from now, without --from"
LOST = f"{ANEW}: changes may be missing"
THERE = "go on with --from the last line's position: a server that has all GTIDs of it takes it"
LATER = "follow from a later position, or from now, without --from"


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (binlog_reset("it ends"), LOST),
        (
            HiddenChange("it hides", hint=f"unset the option, {HiddenChange.CARRY_ON}"),
            f"unset the option, then {LATER}",
        ),
        (
            UnreadableChange("it hides", hint="unset it, then start the migration again"),
            f"unset it, then {LATER}",
        ),
        (
            SchemaChanged(
                "4 columns", hint="another session altered it; start the migration again"
            ),
            f"another session altered it, then {LATER}",
        ),
        (
            another_server("db1", found="b", wanted="a"),
            THERE,
        ),
        (
            FeedSilent("lost", hint="when it is back, run the same command again"),
            f"when it is back, then {GO_ON}",
        ),
        (
            FeedFailure(
                "filtered", hint=WITHOUT_FILTER + GIVE_UP, error_code=ErrorCode.BINLOG_FILTERED
            ),
            f"{WITHOUT_FILTER.removesuffix(', then run again')}, then {LOST}",
        ),
        (
            PositionNotFound("purged", hint="start the migration afresh"),
            f"the changes since then are not available: {ANEW}",
        ),
        (
            NeverExecuted("behind", hint="start the migration afresh"),
            f"wait until this server has executed it, or follow its own; if that is lost, {ANEW}",
        ),
        (BinlogUnreadable("torn", hint="see the error log"), "see the error log"),
        (
            BinlogUnreadable("it lost events", hint="see the log; start the migration again"),
            f"see the log, then {LOST}",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_no_hint_is_about_a_migration(error: SpiritError, hint: str) -> None:
    """Nothing is compared or resumed here, and without --from the same command misses changes."""
    assert command._onward(error, "P") == hint


def test_every_hint_of_the_stream_turns_where_it_is_cut() -> None:
    """A new one, in other words, would tell the reader of a stream to run a migration again."""
    of_a_migration = re.compile(r"same command|run again|start again|the migration|resumes| or ?,")
    package = Path(command.__file__).parent.parent
    texts = [
        text
        for folder in ("binlog", "watch")
        for path in package.joinpath(folder).rglob("*.py")
        for text in texts_of(ast.parse(path.read_text()))
        if of_a_migration.search(text) and text not in {GIVE_UP, command._AGAIN.pattern}
    ]
    assert len(texts) > 20
    turned = [command._onward(FeedFailure("it failed", hint=text), "P") for text in texts]
    assert not [text for text in turned if of_a_migration.search(text)]


def texts_of(tree: ast.Module) -> Iterator[str]:
    """Yield the strings of a module but for its docstrings; what is filled in is left out."""
    parts = [one for one in ast.walk(tree) if isinstance(one, (ast.Expr, ast.JoinedStr))]
    inner = {one for part in parts for one in ast.iter_child_nodes(part)}
    for one in ast.walk(tree):
        if isinstance(one, ast.JoinedStr):
            yield "".join(str(part.value) for part in one.values if isinstance(part, ast.Constant))
        elif isinstance(one, ast.Constant) and isinstance(one.value, str) and one not in inner:
            yield one.value


def test_a_transaction_that_breaks_off_comes_again(run: Run) -> None:
    """R12: the reader of the lines learns that the rows so far do not count."""
    kinds = run.take(Began(at(10)), rows(20), Restarted(), Began(at(10)), rows(20))
    assert kinds == ["begin", "insert", "restarted", "begin", "insert"]
    assert run.take(Committed(at(30)), Restarted()) == ["commit"]
    assert run.positions()[-2:] == [0, 30]


def test_ddl_ends_its_own_transaction(run: Run) -> None:
    """Its position is behind it; inside a transaction it stands between begin and commit."""
    assert run.take(statement(10, "ALTER TABLE t ADD x INT"), Committed(at(10))) == ["ddl"]
    assert run.positions() == [10]
    create = statement(20, "CREATE TABLE u (a INT) START TRANSACTION")
    kinds = run.take(create, Began(at(30)), rows(30), Committed(at(40)))
    assert kinds == ["begin", "ddl", "insert", "commit"]
    assert run.take(statement(50, "ALTER TABLE o.t ADD x INT"), Committed(at(50))) == []
    assert run.take(statement(60, "GRANT ALL ON *.* TO u"), Committed(at(60))) == []


def test_what_was_done_to_a_new_table_outlives_its_triggers_and_keys_to_it(run: Run) -> None:
    """Nor does TRUNCATE undo an ALTER; an ALTER of a child is none of its parent."""
    alters = [
        "ALTER TABLE _t_new ADD x INT",
        "alter /* gh-ost */ table _t_new ADD CONSTRAINT k FOREIGN KEY (x) REFERENCES p (id)",
        "CREATE /* app */ INDEX i ON _t_new (x)",
    ]
    sent = [
        "CREATE TABLE _t_new LIKE t",
        "ALTER TABLE _t_new ADD never INT",
        "DROP /* gh-ost */ TABLE IF EXISTS `_t_new`",
        "CREATE /* gh-ost */ TABLE _t_new LIKE t",
        *alters,
        "TRUNCATE _t_new",
        "CREATE DEFINER=`table`@`%` TRIGGER a BEFORE INSERT ON `s`.`_t_new` FOR EACH ROW BEGIN END",
        "ALTER TABLE lines ADD CONSTRAINT l FOREIGN KEY (o) REFERENCES _t_new (id)",
        "CREATE TABLE more (o INT REFERENCES _t_new (id))",
        "RENAME TABLE t TO _t_old, _t_new TO t",
    ]
    for number, sql in enumerate(sent):
        run.take(statement(number, sql), Committed(at(number)))
    assert run.records[-1]["alters"] == alters


def test_a_write_in_statement_format_stops_only_its_own_scope(run: Run) -> None:
    """R13: changes without row images cannot be printed."""
    assert run.take(statement(10, "DELETE FROM t", "o"), Committed(at(10))) == []
    with pytest.raises(UnreadableChange, match="STATEMENT format"):
        run.take(statement(20, "DELETE FROM t"))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT `s`.`f`(1)",
        "DO f()",
        "UPDATE /*!99999 a */ b SET x = 1",
        "INSERT INTO w VALUES (1)",
    ],
)
def test_a_write_to_a_table_that_no_option_names_stops_the_stream(run: Run, sql: str) -> None:
    """R13: a view, a trigger or a function may write to what is followed."""
    with pytest.raises(StatementWrite, match=r"STATEMENT format.*session 9 at b\.000001:10"):
        run.take(statement(10, sql, "o"))


def test_a_table_that_a_query_fills_stops_its_own_scope(run: Run) -> None:
    """R13: its rows have no images, and would be missing behind the DDL that is printed."""
    created = statement(10, "CREATE TABLE o.c AS SELECT 1")
    assert run.take(created, Committed(at(10))) == []
    with pytest.raises(UnreadableChange, match="STATEMENT format"):
        run.take(statement(20, "CREATE TABLE s.c AS SELECT 1", "o"))


def test_ddl_of_unknown_characters_stops_only_where_it_may_be_ours(run: Run) -> None:
    """R14: letters of ASCII are the same in every character set; the rest is not known."""
    unread = StatementSeen(at(10), "o", "DROP TABLE `\\x83`", 9, certain=False)
    assert run.take(unread, Committed(at(10))) == []
    # It may have a password, which no message is to have.
    account = "CREATE USER `\\x83` IDENTIFIED BY 'secret'"
    assert run.take(StatementSeen(at(10), "s", account, 9, certain=False)) == []
    with pytest.raises(SchemaChanged, match="cannot be parsed"):
        run.take(StatementSeen(at(20), "s", "DROP TABLE `\\x83`", 9, certain=False))


def test_ddl_counts_in_both_of_its_readings(run: Run) -> None:
    """The server writes some statements in UTF-8, whatever the client speaks."""
    sql, other = "DROP TABLE `\u00c3\u00a4`.x", "DROP TABLE s.x"
    assert run.take(StatementSeen(at(10), "o", sql, 9, other=other), Committed(at(10))) == ["ddl"]


def test_xa_rows_come_with_the_decision(run: Run) -> None:
    """R8: also that of another session, much later; a rollback prints no row."""
    first = (Began(at(10), "x"), rows(20), XaPrepared(at(30), "x"))
    second = (Began(at(40), "y"), rows(50), XaPrepared(at(60), "y"))
    assert run.take(*first, *second) == ["xa_prepare", "xa_prepare"]
    assert run.take(XaDecided(at(70), "y", commit=True)) == ["begin", "insert", "xa_commit"]
    assert run.positions()[-1] == 0
    assert run.take(XaDecided(at(80), "x", commit=False)) == ["xa_rollback"]
    assert run.positions()[-1] == 80
    one_phase = (Began(at(90), "z"), rows(90), Committed(at(95)))
    assert run.take(*one_phase) == ["begin", "insert", "commit"]
    run.follower.close()


def test_decisions_without_rows_are_quiet_unless_they_are_older(run: Run) -> None:
    """An XA transaction prepared before the start has rows that nobody will see."""
    assert run.take(XaPrepared(at(10), "n"), XaDecided(at(20), "n", commit=True)) == []
    assert run.take(XaDecided(at(30), "old", commit=True)) == ["xa_commit"]
    assert "prepared before the start" in run.records[-1]["note"]
    assert run.take(XaPrepared(at(40), "without rows")) == []
    assert run.take(XaDecided(at(50), "without rows", commit=True)) == []


def test_a_heartbeat_is_printed_after_quiet_seconds(run: Run) -> None:
    """Only when nothing was printed for so long; it carries the position reached."""
    run.now = 9.0
    assert run.take(Advanced(at(10))) == []
    run.now = 10.0
    assert run.take(Committed(at(20)), Committed(at(30))) == ["heartbeat"]
    assert run.positions() == [20]


def test_a_fault_of_the_stream_is_raised(run: Run) -> None:
    """In its place between the events."""
    with pytest.raises(FeedFailure):
        run.take(Failed(FeedFailure("broken")))
