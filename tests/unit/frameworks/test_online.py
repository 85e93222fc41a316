"""What a framework's settings make of a change."""

from __future__ import annotations

from typing import Any

import pytest

from spirit_py.errors import UsageFault
from spirit_py.frameworks.online import OnlineChange


def change(**settings: Any) -> OnlineChange:
    """Return a change by such settings."""
    return OnlineChange.of(("s", "t"), "ALTER TABLE t FORCE", {"nice": 1, **settings})


@pytest.mark.parametrize(
    ("value", "on"),
    [
        (True, True), (False, False), ("true", True), ("false", False), ("Off", False),
        ("yes", True), ("1", True), ("0", False),
    ],
)  # fmt: skip
def test_a_setting_that_is_on_or_off_may_be_a_text(value, on):
    """As the options' values: the text false is not on, and no option of the migration."""
    made = change(handle_signals=value)
    assert made.handle_signals is on
    assert made.arguments == {"nice": 1}


def test_without_the_setting_signals_are_the_frameworks():
    """It is off."""
    assert change().handle_signals is False


@pytest.mark.parametrize("value", ["maybe", 2, 0.5, None, [], [True]])
def test_a_setting_that_is_neither_is_refused_by_name(value):
    """The refusal says what to write."""
    with pytest.raises(UsageFault, match="handle_signals is") as refused:
        change(handle_signals=value)
    assert refused.value.hint == "set handle_signals to true or false"
