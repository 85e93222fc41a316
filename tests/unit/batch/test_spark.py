"""One Spark for all migrations of a batch."""

from __future__ import annotations

from spirit_py.batch.table_run import SharedSpark
from spirit_py.config import ConnectionOptions, MigrationConfig
from spirit_py.errors import MigrationFailure
from tests.kits.engine import ThreadEngine


def config(threads):
    """Return the configuration of a migration with so many slots."""
    return MigrationConfig(connection=ConnectionOptions(), database="s", threads=threads)


class Counted:
    """Makes engines, and keeps them."""

    def __init__(self):
        self.made = []
        self.starts = []

    def __call__(self, _config):
        """Make one."""
        engine = ThreadEngine(4, at_start=lambda: self.starts.append(1))
        self.made.append(engine)
        return engine


def test_all_migrations_have_one_engine():
    """It outlives each of them, and is stopped once."""
    factory = Counted()
    shared = SharedSpark(factory, config(4))
    assert factory.made == []
    for _ in range(3):
        lease = shared.lease(config(2))
        lease.start()
        lease.stop()
    (engine,) = factory.made
    assert not engine.stopped
    shared.stop()
    assert engine.stopped


def test_a_lease_shows_the_slots_of_its_migration():
    """The gangs of two migrations find room beside each other."""
    shared = SharedSpark(Counted(), config(4))
    assert [shared.lease(config(share)).slots for share in (1, 3, 9)] == [1, 3, 4]


def test_a_lease_that_has_ended_is_not_ready():
    """The engine behind it still is."""
    shared = SharedSpark(Counted(), config(4))
    one, other = shared.lease(config(2)), shared.lease(config(2))
    one.stop()
    assert (one.ready, other.ready) == (False, True)


def test_a_lost_spark_is_replaced_for_the_next_migration(monkeypatch):
    """Those under way see the failure; a process has one Spark at a time, so it is stopped."""
    factory = Counted()
    shared = SharedSpark(factory, config(4))
    first = shared.lease(config(2))
    monkeypatch.setattr(factory.made[0], "failure", MigrationFailure("the JVM has ended"), False)
    assert first.failure is not None
    second = shared.lease(config(2))
    assert factory.made[0].stopped
    assert second.failure is None
    assert len(factory.made) == 2


def test_a_batch_that_needs_no_spark_starts_none():
    """Nothing is made, and nothing is stopped."""
    factory = Counted()
    SharedSpark(factory, config(4)).stop()
    assert factory.made == []
