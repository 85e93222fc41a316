"""Phases: what may follow what, and the time spent in each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spirit_py.phases import TRANSITIONS, IllegalTransition, Phase, PhaseLog

WHOLE = (
    Phase.SHORTCUT,
    Phase.CREATE,
    Phase.COPY,
    Phase.DRAIN,
    Phase.ANALYZE,
    Phase.CHECKSUM,
    Phase.CUTOVER,
    Phase.CLEANUP,
    Phase.DONE,
)


def test_the_whole_line_is_legal_and_timed():
    """A migration through the copy path passes every phase, each with its seconds."""
    log = PhaseLog()
    for now, phase in enumerate(WHOLE, start=1):
        log = log.entered(phase, float(now))
    assert log.current is Phase.DONE
    spent = log.seconds(100.0)
    assert spent == {phase.value: 1.0 for phase in (Phase.PREFLIGHT, *WHOLE[:-1])}


def test_the_swap_cannot_be_reached_without_a_checksum():
    """No phase but checksum and sentinel leads to the cutover."""
    leading = {phase for phase, following in TRANSITIONS.items() if Phase.CUTOVER in following}
    assert leading == {Phase.CHECKSUM, Phase.SENTINEL}


def test_an_illegal_move_tells_the_history():
    """The error of an illegal transition names where the migration has been."""
    log = PhaseLog()
    log = log.entered(Phase.SHORTCUT, 1.0)
    with pytest.raises(IllegalTransition, match="so far: preflight -> shortcut"):
        log.entered(Phase.CUTOVER, 2.0)


def test_the_page_has_the_transitions_of_the_code():
    """The table of docs/architecture.md is the table of the program."""
    page = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| `([a-z]+)` \| ((?:`[a-z]+`(?:, )?)+|-) \|$", page, re.MULTILINE)
    found = {name: set(re.findall("`([a-z]+)`", following)) for name, following in rows}
    assert found == {
        phase.value: {one.value for one in following} for phase, following in TRANSITIONS.items()
    }
