"""The order of a run's files, and the list of those that take most of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.fixtures.seconds import LISTED, Seconds, pytest_collection_modifyitems


def report(name: str, duration: float, worker: str = "gw0") -> Any:
    """Return the report of one part of a test, as it comes from a worker."""
    gateway = SimpleNamespace(id=worker)
    return SimpleNamespace(
        nodeid=name, duration=duration, node=SimpleNamespace(gateway=gateway) if worker else None
    )


@pytest.mark.smoke
def test_files_without_a_server_come_last() -> None:
    """What is short fills the end of a run; beside that the order stays as it was drawn."""
    names = [
        "tests/unit/b.py::test_1",
        "tests/integration/a.py::test_1",
        "tests/integration/a.py::test_2",
        "tests/unit/a.py::test_1",
        "tests/faults/a.py::test_1",
    ]
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in names]
    pytest_collection_modifyitems(items)
    assert [item.nodeid for item in items] == [names[n] for n in (1, 2, 4, 0, 3)]


def test_what_files_and_workers_take_is_listed() -> None:
    """Setup, call and teardown count; a test counts once; the slowest file stands first."""
    seconds = Seconds()
    for name, duration, worker in [
        ("a.py::test[x::y]", 1.0, "gw0"),
        ("a.py::test[x::y]", 2.0, "gw0"),
        ("b.py::test_1", 4.0, "gw1"),
        ("b.py::test_2", 0.5, "gw1"),
    ]:
        seconds.pytest_runtest_logreport(report(name, duration, worker))
    assert list(seconds.lines()) == [
        "tests took 8 s: gw0 3 s, gw1 4 s",
        "    4.5 s     2 tests  b.py",
        "    3.0 s     1 tests  a.py",
    ]


def test_the_list_of_slow_files_is_short() -> None:
    """A run has hundreds of files; the first of them are what can be made shorter."""
    seconds = Seconds()
    for number in range(LISTED + 5):
        seconds.pytest_runtest_logreport(report(f"{number}.py::test", number))
    assert len(list(seconds.lines())) == LISTED + 1
