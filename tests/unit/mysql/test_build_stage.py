"""What the server says of an index build, as it is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from spirit_py.mysql.tables.deferred_indexes import build_stage

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession


class Session:
    """Answers every query with the same rows."""

    def __init__(self, *rows):
        self._rows = rows

    def query(self, _sql, _args=()):
        """Return them."""
        return self._rows


def answering(*rows) -> SqlSession:
    """Return a session that answers so."""
    return cast("SqlSession", Session(*rows))


@pytest.mark.parametrize(
    ("done", "estimated", "shown"),
    [(400, 1000, "merge sort, 40.0%"), (4130, 4130, "merge sort"), (5, 4, "merge sort")],
)
def test_a_build_is_not_called_done_while_it_runs(done, estimated, shown):
    """A server without an estimate says that all is done, from the beginning on."""
    row = ("stage/innodb/alter table (merge sort)", done, estimated)
    stage = build_stage(answering(row), 7)
    assert stage is not None
    assert str(stage) == shown
    assert stage.fraction == (0.4 if done == 400 else None)


def test_without_the_consumer_there_is_no_stage():
    """It is off by default."""
    assert build_stage(answering(), 7) is None
