"""The fuzzer's own parts, without a server: seeds, and what the shrinker leaves."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest

from tests.fuzz import judge
from tests.fuzz.draw import draw
from tests.fuzz.judge import Verdict, too_few_right
from tests.fuzz.model import as_files
from tests.fuzz.shrink import alike
from tests.oracle.load import HeldUp, LoadError
from tests.oracle.scene import Outcome


@pytest.mark.smoke
def test_a_seed_stands_for_one_scenario() -> None:
    """The same seed draws the same table, change and writers every time."""
    assert draw(4711) == draw(4711)
    assert len({as_files(draw(seed).case()) for seed in range(50)}) == 50


def test_a_column_is_taken_away_with_all_that_mentions_it() -> None:
    """What the shrinker leaves of a scenario names no column that it has taken away."""
    for seed in range(50):
        scenario = draw(seed)
        name = scenario.columns[0].name
        assert f"`{name}`" not in as_files(scenario.without_column(name).case())


def test_the_shrinker_does_not_take_one_failure_for_another() -> None:
    """Two refusals are alike when they say the same of different tables, and only then."""
    first, same, other = (
        Verdict(scenario=draw(1), kind="refused", text=f"a native ALTER succeeds; {text}")
        for text in (
            "exit code 1: 11 rows of t_55ed.t are duplicates for a new unique key",
            "exit code 1: 2 rows of t_9a1f.t are duplicates for a new unique key",
            "exit code 2: table t has neither a primary key nor a unique key over NOT NULL",
        )
    )
    assert alike(first, same)
    assert not alike(first, other)


@pytest.mark.parametrize(
    ("error", "kind"), [(LoadError("1064"), "unsound"), (HeldUp("2 rounds"), "held up")]
)
def test_a_writer_that_is_held_up_is_a_finding(error, kind):
    """A drawn statement that is none is not the program's fault."""
    with mock.patch.multiple(
        judge,
        Oracle=mock.MagicMock(),
        global_variables=mock.MagicMock(),
        run_in_own_session=mock.Mock(),
        _under_load=mock.Mock(side_effect=error),
    ):
        verdict = judge._judge(replace(draw(1), invariants=()), mock.MagicMock(), mock.Mock())
    assert (verdict.kind, verdict.finding) == (kind, kind == "held up")


def judged_after(exit_code: int, changed: str = "right", **report: object) -> Verdict:
    """Return the verdict on a run whose writer then fails; the server refuses the change, too."""
    outcome = Outcome(exit_code=exit_code, text="said", report={"resumable": True, **report})

    def under_load(_scenario, case, db, migrate):
        migrate(case, db, mock.Mock())
        if not exit_code:
            raise LoadError("writer 0: 1054")
        return outcome

    with mock.patch.multiple(
        judge,
        Oracle=mock.MagicMock(),
        global_variables=mock.MagicMock(),
        run_in_own_session=mock.Mock(),
        _under_load=under_load,
        _changed=mock.Mock(return_value=(changed, "")),
        _refusal=mock.Mock(return_value="1062"),
    ):
        db, migrate = mock.MagicMock(), mock.Mock(return_value=outcome)
        return judge._judge(replace(draw(1), invariants=()), db, migrate)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("exit_code", "code", "kind"),
    [
        (1, "duplicates-for-unique-key", "both refuse"),
        (1, "value-lost", "both refuse"),
        (2, "definition-refused", "both refuse"),
        (1, "defect", "crash"),
        (2, "defect", "crash"),
        (1, "feed-failed", "crash"),
    ],
)
def test_only_an_error_of_the_change_is_a_refusal(exit_code: int, code: str, kind: str) -> None:
    """A bug of the program ends it with the same exit code, and the server refuses for its own."""
    assert judged_after(exit_code, error_code=code).kind == kind


@pytest.mark.smoke
@pytest.mark.parametrize(("changed", "kind"), [("right", "unsound"), ("wrong", "wrong")])
def test_a_writer_that_fails_on_the_changed_table_is_unsound_where_that_is_right(
    changed: str, kind: str
) -> None:
    """A column that the program has lost fails it, too."""
    assert judged_after(0, changed).kind == kind


def test_many_runs_of_which_few_are_right_prove_little():
    """Whatever the others say for themselves."""
    right, unsound = (Verdict(scenario=draw(1), kind=kind) for kind in ("right", "unsound"))
    assert too_few_right([right] * 15 + [unsound] * 16)
    assert not too_few_right([right] * 16 + [unsound] * 15)
    assert not too_few_right([unsound] * 29)
