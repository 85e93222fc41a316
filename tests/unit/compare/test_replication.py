"""Which servers may not be repaired from each other, as their variables say."""

from __future__ import annotations

import pytest

from spirit_py.compare.checks import one_group
from spirit_py.mysql.facts import ServerFacts

GROUP = "5f2d8f0e-0c5c-4b43-8d1e-4b7a3c1f0001"


def member(name: str | None) -> ServerFacts:
    """Return a server with this name of a group; none without the plugin."""
    variables = {} if name is None else {"group_replication_group_name": name}
    return ServerFacts(version="9.7.4", variables=variables)


@pytest.mark.parametrize(
    ("source", "target", "refused"),
    [
        (member(GROUP), member(GROUP.upper()), True),
        (member(GROUP), member(GROUP.replace("5f", "6f")), False),
        (member(GROUP), member(None), False),
        (member(""), member(""), False),
        (member(None), member(None), False),
    ],
)
def test_members_of_one_group_are_not_repaired_from_each_other(
    source: ServerFacts, target: ServerFacts, refused: bool
) -> None:
    """A secondary that is late would have the rows of the primary deleted."""
    assert bool(list(one_group(source, target))) is refused
