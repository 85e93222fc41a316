"""Each rule of docs/rules.md has tests that every usual run makes: drawn ones may be left out."""

from __future__ import annotations

import ast
import errno
import os
import re
from pathlib import Path
from subprocess import CompletedProcess
from unittest.mock import Mock

import pytest

from tests.breakages.breakage import Breakage, breakages, has_found, link_or_copy

TESTS = Path(__file__).parent.parent
#: Of each rule, tests that fail when it is broken and that no run leaves out, by file.
ALWAYS = {
    "R1": {
        "integration/test_copier": ["test_the_source_is_read_without_locks"],
        "unit/copier/test_chunk_sql": ["test_a_chunk_is_one_replace_select"],
    },
    "R2": {
        "semisync/test_visibility": [
            "test_a_feed_that_starts_during_a_stall_loses_nothing",
            "test_a_feed_that_starts_during_a_stall_loses_nothing_without_gtids",
        ]
    },
    "R3": {
        "integration/test_copier": ["test_a_chunk_waits_until_a_transaction_is_visible"],
        "semisync/test_visibility": ["test_nothing_is_dropped_without_gtids"],
    },
    "R4": {
        "unit/feed/test_buffer": [
            "test_a_change_inside_a_chunk_in_flight_is_held",
            "test_counted_dispatches_hold_every_earlier_change",
        ]
    },
    "R5": {"integration/test_feed": ["test_unique_values_that_move_between_rows_settle"]},
    "R6": {"unit/table/test_keys": ["test_only_the_no_pad_binary_collation_makes_text_comparable"]},
    "R7": {
        "unit/feed/test_feed": ["test_the_position_moves_only_behind_applied_changes"],
        "unit/feed/test_ledger": [
            "test_a_prepared_xa_transaction_holds_the_position_before_its_start"
        ],
    },
    "R8": {
        "integration/test_feed_xa": [
            "test_rows_wait_for_the_decision",
            "test_a_transaction_prepared_before_the_start_is_waited_for",
            "test_an_older_transaction_that_stays_undecided_stops_the_start",
        ]
    },
    "R9": {"integration/test_row_decoder": ["test_random_rows_survive_the_decoder"]},
    "R10": {
        "integration/test_applier": ["test_a_value_that_does_not_fit_is_named"],
        "integration/test_copier": ["test_a_value_that_would_be_lost_stops_the_copy"],
    },
    "R11": {
        "integration/test_preflight": ["test_duplicates_of_a_new_key_are_named_before_the_copy"],
        "integration/test_after_checksum": ["test_an_update_of_two_rows_to_one_value_is_found"],
    },
    "R12": {"integration/test_feed": ["test_a_black_holed_connection_is_noticed"]},
    "R13": {
        "integration/test_feed": [
            "test_what_others_do_to_the_table_stops_the_feed",
            "test_a_compressed_transaction_is_decoded",
        ]
    },
    "R14": {
        "integration/test_migrate": ["test_ddl_of_others_before_the_feed_sees_it_is_noticed"],
        "unit/checkpoint/test_decision": [
            "test_a_changed_definition_gives_the_migration_up",
            "test_another_server_is_refused_whatever_its_tables_show",
        ],
    },
    "R15": {
        "integration/test_cutover": ["test_lock_lost_in_a_living_session"],
        "integration/test_cutover_writers": ["test_feed_that_is_late"],
    },
    "R16": {
        "integration/test_migrate": ["test_a_signal_during_the_copy_leaves_the_source_whole"],
    },
    "R17": {
        "unit/checkpoint/test_decision": ["test_a_proof_that_nothing_can_be_resumed_begins_afresh"],
        "unit/feed/test_feed": ["test_a_resumed_run_drops_nothing_that_was_copied"],
    },
    "R18": {
        "integration/test_copier": [
            "test_a_lost_task_is_fenced_before_its_chunk_is_copied_again",
            "test_a_task_that_was_given_up_copies_nothing",
        ],
        "unit/spark/test_settings": ["test_what_a_gang_cannot_have_stays_off"],
    },
    "R19": {
        "integration/test_feed": ["test_a_tiny_buffer_holds_the_reader_back_and_loses_nothing"]
    },
    "R20": {"integration/test_spark": ["test_secrets_are_nowhere_in_spark"]},
    "R21": {
        "integration/test_after_checksum": [
            "test_staged_and_direct_images_of_a_text_key_keep_their_order",
            "test_an_update_of_two_rows_to_one_value_is_found",
        ]
    },
    "R22": {
        "integration/test_copier": ["test_timestamps_convert_in_the_servers_zone"],
        "integration/test_cases": ["test_a_case_ends_as_a_native_alter_would"],
        "unit/mysql/test_evaluation": ["test_settings_are_the_servers"],
    },
    "R23": {
        "integration/test_frozen": [
            "test_a_black_hole_under_the_cutovers_lock_costs_one_try",
            "test_a_black_hole_under_the_checksums_lock_costs_one_request",
        ],
        "integration/test_lock_turns": [
            "test_nothing_is_requested_while_somebody_old_is_in_front",
        ],
    },
    "R24": {
        "integration/test_strangers": [
            "test_a_new_table_in_the_place_of_ours_stays",
            "test_a_remembered_session_id_ends_no_session_of_others",
        ]
    },
    "R25": {
        "integration/test_binlog_filters": [
            "test_a_filter_of_another_schema_hides_no_truncate",
        ],
        "integration/test_sight": [
            "test_a_revoked_trigger_privilege_loses_no_trigger",
        ],
    },
    "R26": {
        "integration/test_lag": ["test_whoever_registers_as_a_replica_gets_no_password"],
        "integration/test_spark": ["test_a_stranger_gets_nothing_from_spark"],
        "unit/frameworks/test_connecting": [
            "test_what_cannot_be_carried_over_is_refused_by_its_name",
        ],
        "attacks/test_usage": [
            "test_a_run_ends_well_whoever_has_taken_the_names_that_can_be_guessed",
        ],
    },
    "R27": {"integration/test_keep": ["test_each_kept_row_is_there_and_no_other"]},
}
LISTED = [
    (rule, file, name)
    for rule, files in ALWAYS.items()
    for file, names in files.items()
    for name in names
]


def functions_of(file: str) -> dict[str, ast.FunctionDef]:
    """Return the tests of a file that stand for themselves, in no class and behind no ``if``."""
    tree = ast.parse((TESTS / f"{file}.py").read_text())
    marked = [ast.unparse(one) for one in tree.body if isinstance(one, ast.Assign)]
    if any(re.match(r"pytestmark\b.*\b(draws|slow|skip)", one) for one in marked):
        return {}
    return {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}


@pytest.mark.parametrize(("rule", "file", "name"), LISTED)
def test_no_run_leaves_out_the_tests_of_a_rule(rule: str, file: str, name: str) -> None:
    """They are there, and neither drawn nor skipped."""
    found = functions_of(file).get(name)
    assert found, f"{rule}: {file}.py has no {name}, or draws it"
    marks = [ast.unparse(one) for one in found.decorator_list]
    assert not [one for one in marks if re.search(r"\b(draws|slow|skip|skipif|xfail)\b", one)], (
        marks
    )


def test_each_rule_has_such_a_test() -> None:
    """All of them."""
    assert [rule for rule, files in ALWAYS.items() if any(files.values())] == [
        f"R{number}" for number in range(1, 28)
    ]


RULES = TESTS.parent / "docs" / "rules.md"
ROWS = re.findall(r"^\| ((?!rule |---)[^|]+?) \|", RULES.read_text(), re.MULTILINE)


def test_every_row_is_broken_by_the_lane() -> None:
    """At least once each (``make ci-rules``)."""
    assert {one.row for one in breakages()} == set(ROWS)


@pytest.mark.parametrize("breakage", [pytest.param(one, id=one.name) for one in breakages()])
def test_what_is_broken_stands_in_its_file_once(breakage: Breakage) -> None:
    """So that the lane breaks what it is meant to; and what is left compiles."""
    file = TESTS.parent / "spirit_py" / breakage.file
    compile(breakage.broken(file.read_text()), str(file), "exec")
    missing = [one for one in breakage.tests if not (TESTS / one.partition("::")[0]).exists()]
    assert not missing


@pytest.mark.parametrize(
    ("code", "said", "found"),
    [
        (1, "\nFAILED tests/a.py::test_a\n", True),
        (1, "\nERROR at setup of test_a\n\nERROR tests/a.py::test_a\n", False),
        (1, "\nFAILED tests/a.py::test_a\n___ ERROR at setup of test_b ___\n", False),
        (1, "\nFAILED tests/a.py::test_a\n___ ERROR at teardown of test_a ___\n", True),
        (2, "\nFAILED tests/a.py::test_a\n", False),
    ],
)
def test_a_breakage_is_found_by_a_test_that_could_begin(code: int, said: str, found: bool) -> None:
    """Not by a server that does not start, nor by a file that cannot be read."""
    assert has_found(CompletedProcess([], code, stdout=said)) is found


def test_a_copy_is_made_where_no_link_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another file system, or of another user's files."""
    (tmp_path / "a").write_text("text")
    monkeypatch.setattr(os, "link", Mock(side_effect=OSError(errno.EXDEV, "another device")))
    link_or_copy(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (tmp_path / "b").read_text() == "text"
