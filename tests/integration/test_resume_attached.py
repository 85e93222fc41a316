"""A swap of parents and children that is killed anywhere, under writers, and the same command.

``make kills`` strikes at every point of the swap and after each statement of its packet, the usual
run at some. Whatever state is left, the tables' writers go on: nothing breaks an invariant of
``tests/kits/relatives.py``, and the next run of the same command settles what was left half-way.
"""

from __future__ import annotations

import random
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from spirit_py.errors import MigrationFailure, Refusal
from spirit_py.locks.named import migration_lock
from spirit_py.migration.swap.attachments import settle_earlier, settle_left
from spirit_py.mysql.session import Session
from spirit_py.threads import StopSwitch
from tests.faults.hooks import PACKET_VARIABLE
from tests.kits import kills
from tests.kits.attached import Swapping, run_killed_after
from tests.kits.command import command_line, environment
from tests.kits.connection import connection_options
from tests.kits.locking import await_lock_freed
from tests.kits.migrate import config_for, migrate_here
from tests.kits.point_listener import PointListener
from tests.kits.relatives import (
    Writers,
    assert_as_before,
    assert_holds,
    catalogue,
    make_relatives,
)
from tests.kits.resume import SEED, kill_at
from tests.kits.tables import tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from spirit_py.spark.gang import GangEngine
    from tests.fixtures.mysql import Database

pytestmark = pytest.mark.kills
#: Tests that share the statements of a packet: a kill after each takes too long for one.
PARTS = 6
#: Two tables at once, which refer to each other, to a parent and to themselves.
STATEMENT = "ALTER TABLE orders {0}; ALTER TABLE items {0}"
CHANGES = ("ADD COLUMN x INT NOT NULL DEFAULT 5", "DROP COLUMN x")
#: So many places within a packet the usual run stops at, beside its ends.
STOPS = 6
BASE = ["audit", "customers", "items", "journal", "notes", "orders"]


class Family:
    """The related tables, their writers, and one change after the other."""

    def __init__(self, db: Database, engine: GangEngine) -> None:
        self.db, self.engine = db, engine
        make_relatives(db)
        self.before = catalogue(db)
        self._changes = 0

    @property
    def statement(self) -> str:
        """The next change."""
        return STATEMENT.format(CHANGES[self._changes % 2])

    def carry_on(self, writers: Writers) -> None:
        """Look at what a killed run left, run the same command, and look again."""
        writers.write_on()
        assert_holds(self.db)
        report, told = migrate_here(
            self.engine, config_for(self.db, statement=self.statement, no_shortcut=True)
        )
        assert report.outcome == "done", told.text
        assert report.resumed, told.text
        assert report.differences_found == 0, told.text
        self.is_done(writers)

    def is_done(self, writers: Writers) -> None:
        """Nothing of ours is left, and triggers and keys are what they were."""
        writers.write_on()
        assert_holds(self.db)
        assert tables(self.db) == BASE
        assert_as_before(self.db, self.before)
        self._changes += 1


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.parametrize("names", [("orders",), ("items", "orders"), ("customers", "orders")])
def test_a_packet_of_keys_and_triggers_that_stopped_anywhere_is_settled(
    db: Database, names: tuple[str, ...]
) -> None:
    """After a statement, and in a new session: all is as before, or as after the swap.

    LOCK TABLES of a child opens its parent without triggers, which FOLLOWS must not meet. The usual
    run stops after the first statements, the last ones and some between, drawn by the seed.
    """
    make_relatives(db)
    before = catalogue(db)
    swapping = Swapping(db, names)
    attached = swapping.attachments()
    attached.survey()
    length = len(attached.statements.all)
    assert length > 3 * len(names)
    for number in stops(length):
        print(f"after {number} of {length}, SPIRIT_PY_TEST_SEED={SEED}")  # noqa: T201 -- if it fails
        renamed = run_killed_after(swapping, number)
        with swapping.session() as session:
            settle_left(swapping.process, session, [(db.name, names[0])])
        assert_as_before(db, before)
        assert_holds(db)
        for name in names if renamed else ():
            db.execute(f"DROP TABLE `_{name}_old`")
            db.execute(f"CREATE TABLE `_{name}_new` LIKE `{name}`")
            db.execute(f"INSERT INTO `_{name}_new` SELECT * FROM `{name}`")


def test_a_strangers_new_table_does_not_undo_a_swap_that_was_made(db: Database) -> None:
    """By the names alone the RENAME was made and was not: nothing is sent until that is clear."""
    make_relatives(db)
    before = catalogue(db)
    swapping = Swapping(db, ("orders",))
    attached = swapping.attachments()
    attached.survey()
    packet = attached.statements
    assert run_killed_after(swapping, len(packet.before) + 1)
    db.execute("CREATE TABLE _orders_new LIKE orders")
    half_way = catalogue(db)
    with swapping.session() as session:
        with pytest.raises(MigrationFailure, match=r"_orders_new and _orders_old are there: n"):
            settle_left(swapping.process, session, [(db.name, "orders")])
        assert catalogue(db) == half_way
        db.execute("DROP TABLE _orders_new")
        settle_left(swapping.process, session, [(db.name, "orders")])
    assert_as_before(db, before)
    assert_holds(db)


def test_a_swap_that_stopped_half_way_is_not_settled_under_a_run_of_a_child(db: Database) -> None:
    """That alters the child, and would end its migration: it is refused until that has ended."""
    make_relatives(db)
    before = catalogue(db)
    swapping = Swapping(db, ("orders",))
    attached = swapping.attachments()
    attached.survey()
    assert run_killed_after(swapping, len(attached.statements.before) + 1)
    half_way = catalogue(db)
    orders = [(db.name, "orders")]
    with swapping.session() as session:
        with (
            migration_lock(connection_options(db), (db.name, "items"), stop=StopSwitch()),
            pytest.raises(Refusal, match=r"another run works on .*\.items \(server session"),
        ):
            settle_earlier(swapping.process, session, orders)
        assert catalogue(db) == half_way
        await_lock_freed(db, "items")
        settle_earlier(swapping.process, session, orders)
    assert_as_before(db, before)
    assert_holds(db)


def stops(length: int) -> Sequence[int]:
    """Return after how many statements of a packet to stop: the same ones for the same seed."""
    everywhere = range(length + 1)
    if kills.EVERYWHERE:
        return everywhere
    between = random.Random(SEED).sample(everywhere[2:-2], STOPS)
    return [*everywhere[:2], *sorted(between), *everywhere[-2:]]


@pytest.fixture
def family(db: Database, engine: GangEngine) -> Family:
    """Return the tables."""
    return Family(db, engine)


@pytest.fixture
def writers(family: Family) -> Iterator[Writers]:
    """Write to the tables as long as the test runs; every confirmed transaction is there then."""
    with Writers(family.db, SEED) as running:
        yield running
    running.assert_kept()
    assert_holds(family.db)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("point", "nth"), kills.chosen(kills.FEW_OF_RELATIVES, kills.MORE_OF_RELATIVES)
)
def test_a_swap_of_relatives_killed_at_a_point_is_carried_on(
    family: Family, writers: Writers, tmp_path: Path, point: str, nth: int
) -> None:
    """Kill -9 of all processes; every trigger fires once, and no row loses its parent."""
    with PointListener(tmp_path / "points") as listener:
        kill_at(family.db, listener, point, nth, change=("--statement", family.statement))
    family.carry_on(writers)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS if kills.EVERYWHERE else 1))
def test_a_swap_of_relatives_stopped_within_its_packet_is_carried_on(
    family: Family, writers: Writers, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    """Process and session killed after each statement, as a crash of the server does it."""
    length = packet_length(family, writers, monkeypatch)
    assert length >= len(family.before[0]) + len(family.before[1])
    numbers: Sequence[int] = range(length + 1)
    once = [random.Random(SEED).choice(numbers)]
    for number in numbers[part::PARTS] if kills.EVERYWHERE else once:
        print(f"after {number} of {length} statements")  # noqa: T201 -- shown when it fails
        stop_in_packet(family, number)
        assert_told(family)
        family.carry_on(writers)
        assert_told(family)


def assert_told(family: Family) -> None:
    """``status`` tells of a swap that was stopped half-way, and of no other."""
    ended = subprocess.run(
        command_line(family.db, "status"),
        env=environment(family.db),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode in {0, 1}, ended.stderr
    half_way = catalogue(family.db) != family.before
    assert ("half-way" in ended.stdout + ended.stderr) == half_way, ended.stdout


def packet_length(family: Family, writers: Writers, patch: pytest.MonkeyPatch) -> int:
    """Make one change undisturbed; return how many statements its packet has."""
    send, lengths = Session.execute_packet, [0]

    def counting(session: Session, statements: Sequence[str | bytes]) -> object:
        lengths.append(len(statements))
        return send(session, statements)

    with patch.context() as patched:
        patched.setattr(Session, "execute_packet", counting)
        config = config_for(family.db, statement=family.statement, no_shortcut=True)
        migrate_here(family.engine, config)
    family.is_done(writers)
    return max(lengths)


def stop_in_packet(family: Family, number: int) -> None:
    """Run the command, which is killed within the packet of its swap, as is its session."""
    words = ("--statement", family.statement, "--no-shortcut", "--threads", "2")
    ended = subprocess.run(
        command_line(family.db, "migrate", *words, hooks="stop-in-packet"),
        env=environment(family.db, **{PACKET_VARIABLE: str(number)}),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
