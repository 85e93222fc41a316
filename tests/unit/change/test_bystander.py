"""Which writes in text may be passed over: what is asked, remembered and taken back (R13)."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py.change.bystander import Bystanders, Facts
from spirit_py.change.events import Place, StatementSeen
from spirit_py.change.memory import CountFrontier
from spirit_py.change.tokens import Name
from spirit_py.errors import UnjudgedWrite, UnreadableChange

if TYPE_CHECKING:
    from spirit_py.change.statements import Claim

WRITE = "INSERT INTO o.x VALUES (1)"


class Scene:
    """Statements one after the other, and a server that answers."""

    def __init__(self) -> None:
        self.asked: list[Claim] = []
        self.answer: dict[str, Any] = {}
        self.now = 0.0
        self.executed = 0
        self.bystanders = Bystanders(
            self.ask, hint="then go on", onward="then again", clock=lambda: self.now
        )

    def ask(self, claim: Claim) -> Facts:
        """Answer."""
        self.asked.append(claim)
        return Facts(executed=CountFrontier(self.executed), **self.answer)

    def take(self, sql: str, at: int = 0, session: int = 9, **more: Any) -> None:
        """Take a statement at a place."""
        event = StatementSeen(Place("b.000001", at), "s", sql, session)
        self.bystanders.take(event, CountFrontier(at), **more)


@pytest.fixture
def scene() -> Scene:
    """Return a scene in which the server objects to nothing."""
    return Scene()


def test_the_server_is_asked_once_for_many_statements(scene: Scene) -> None:
    """pt-table-checksum writes thousands; DDL and some seconds end what was said."""
    for number in range(100):
        scene.take(f"REPLACE INTO o.x SELECT 'a', {number}, COUNT(*) FROM t WHERE a > '{number}'")
    assert len(scene.asked) == 1
    scene.take("DROP VIEW elsewhere")
    scene.take("REPLACE INTO o.x SELECT 1 FROM t")
    assert len(scene.asked) == 1
    scene.take("CREATE TRIGGER tr BEFORE INSERT ON o.x FOR EACH ROW SET @a = 1")
    scene.take(WRITE)
    assert len(scene.asked) == 2
    scene.now += 60
    scene.take(WRITE)
    assert len(scene.asked) == 3


def test_what_is_remembered_is_bounded(scene: Scene) -> None:
    """Claims are of names alone, which others may choose."""
    for number in range(1000):
        scene.now += 1
        scene.take(f"INSERT INTO o.x{number} VALUES (f{number}(1), 'a text')", 10)
        assert len(scene.bystanders._known) <= 6
    scene.take(f"INSERT INTO o.y VALUES ({', '.join(f'g{n}(1)' for n in range(100))})", 10)
    assert len(scene.bystanders._known) <= 6
    assert len(scene.bystanders._passed) <= 200


def test_what_the_account_may_not_see_can_be_mended(scene: Scene) -> None:
    """The same statement comes again behind the GRANT; a sure objection weighs more."""
    scene.answer = {
        "unseen": "the account may not see triggers of o.x",
        "grants": ("GRANT a", "GRANT b"),
    }
    with pytest.raises(UnjudgedWrite, match="may not see triggers") as raised:
        scene.take(WRITE)
    error = pickle.loads(pickle.dumps(raised.value))
    assert error.resumable
    assert error.exit_code == 1
    assert error.remedy == "GRANT a; GRANT b"
    assert error.hint.startswith("GRANT a; GRANT b; then again; SET binlog_format=ROW")
    scene.now += 60
    scene.answer["objection"] = "o.x is a view"
    with pytest.raises(UnreadableChange, match="is a view"):
        scene.take(WRITE)


def test_an_objection_stops_with_all_that_is_known(scene: Scene) -> None:
    """Statement, session, place, reason and remedy."""
    scene.answer = {"objection": "o.x has the trigger tr"}
    with pytest.raises(UnreadableChange) as raised:
        scene.take(WRITE, 7)
    message = str(raised.value)
    for part in (WRITE, "session 9", "b.000001:7", "o.x has the trigger tr", "STATEMENT"):
        assert part in message
    assert raised.value.hint == "SET binlog_format=ROW in that client; then go on"


def test_targets_that_are_not_certain_are_never_asked_for(scene: Scene) -> None:
    """No answer could prove them foreign."""
    with pytest.raises(UnreadableChange, match="not certain"):
        scene.take("SELECT f(1)")
    assert scene.asked == []


def test_a_table_that_is_not_there_is_foreign_only_as_a_temporary_one(scene: Scene) -> None:
    """A missing table may have been a view; sessions that log statements log theirs."""
    scene.answer = {"missing": frozenset({Name("s", "tmp")})}
    with pytest.raises(UnreadableChange, match=r"no table s\.tmp"):
        scene.take("INSERT INTO tmp VALUES (1)")
    scene.take("CREATE TEMPORARY TABLE tmp (a INT)")
    scene.take("INSERT INTO tmp VALUES (1)")
    with pytest.raises(UnreadableChange):
        scene.take("INSERT INTO tmp VALUES (1)", session=10)
    scene.take("DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `tmp`")
    with pytest.raises(UnreadableChange):
        scene.take("INSERT INTO tmp VALUES (1)")


@pytest.mark.parametrize(
    "ddl",
    [
        "DROP TRIGGER o.tr",
        "DROP TRIGGER IF EXISTS O.tr",
        "DROP VIEW o.v, o.x",
        "DROP VIEW v",
        "ALTER SQL SECURITY INVOKER VIEW v AS SELECT 1",
        "CREATE OR REPLACE VIEW v AS SELECT 1",
        "DROP FUNCTION F",
        "DROP FUNCTION IF EXISTS p.f",
        "DROP DATABASE o",
        "DROP DATABASE s",
        "DROP TABLE q, o.x",
        "ALTER TABLE o.x ENGINE = InnoDB",
        "ALTER TABLE o.y RENAME o.x",
        "RENAME TABLE o.x TO o.y",
    ],
)
def test_ddl_before_the_answer_may_have_made_it_harmless(scene: Scene, ddl: str) -> None:
    """The server says what is now; the statement ran while there was more."""
    scene.executed = 20
    scene.take("INSERT INTO o.x SELECT f(1) FROM v", 10)
    with pytest.raises(UnreadableChange, match="hidden it from the question") as raised:
        scene.take(ddl, 15, session=3)
    said = str(raised.value)
    assert said.endswith("INSERT INTO o.x SELECT f(1) FROM v (session 9 at b.000001:10)")
    assert ddl in said
    assert not raised.value.resumable


@pytest.mark.parametrize(
    ("ddl", "at"),
    [
        ("DROP TRIGGER o.tr", 20),
        ("DROP TRIGGER tr", 15),
        ("DROP VIEW v", 15),
        ("DROP FUNCTION f", 15),
        ("DROP DATABASE p", 15),
        ("ALTER TABLE other ADD VIEW INT", 15),
        ("ALTER TABLE o.x ADD a INT", 15),
        ("CREATE OR REPLACE VIEW v AS SELECT 1 FROM x", 15),
        ("DROP TABLE other", 15),
        ("ALTER TABLE other ADD a INT", 15),
        ("CREATE VIEW v AS SELECT 1", 15),
        ("TRUNCATE o.x", 15),
    ],
)
def test_other_ddl_takes_nothing_back(scene: Scene, ddl: str, at: int) -> None:
    """What came after the answer, and what cannot make a write harmless."""
    scene.executed = 20
    scene.take(WRITE, 10)
    scene.take(ddl, at)


def test_ddl_of_a_followed_table_takes_back_what_its_keys_did(scene: Scene) -> None:
    """A foreign key that is gone may have carried the change on."""
    scene.executed = 20
    scene.take(WRITE, 10)
    with pytest.raises(UnreadableChange):
        scene.take("ALTER TABLE child DROP FOREIGN KEY f", 15, followed=True)


def test_what_was_passed_is_not_searched_each_time(scene: Scene) -> None:
    """A stream that lags keeps what it let pass, and does not look through all of it each time."""

    class Counting(CountFrontier):
        """Counts how often it is compared."""

        compared = 0

        def reaches(self, other: Any) -> bool:
            """Compare."""
            Counting.compared += 1
            return super().reaches(other)

    scene.executed = 10**9
    for number in range(2000):
        event = StatementSeen(Place("b.000001", 1), "s", f"INSERT INTO o.x{number} VALUES (1)", 9)
        scene.bystanders.take(event, Counting(1))
    assert Counting.compared < 4 * 2000
