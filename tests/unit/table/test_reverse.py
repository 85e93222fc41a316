"""The reversed mapping: what is carried back, what is lost, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from spirit_py.attached.foreign_keys.model import NOT_BROUGHT_BACK
from spirit_py.checkpoint.record import ReverseRecord, ReverseTable
from spirit_py.classes import replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, Refusal
from spirit_py.migration.reverse import feed
from spirit_py.migration.reverse.feed import plan_reverse
from spirit_py.mysql.endpoint import Service
from spirit_py.mysql.facts import ServerFacts
from spirit_py.statement.parse import alter_of
from spirit_py.table.build import ReverseChanges, build_mapping, losses_of, reverse_mapping
from tests.kits.definitions import column, index, table

PRIMARY = index("PRIMARY", "id")
UTC = ServerFacts(
    version="9.7.4", variables={"time_zone": "+00:00", "explicit_defaults_for_timestamp": "ON"}
)
OFF = replace(UTC, variables={"time_zone": "+00:00", "explicit_defaults_for_timestamp": "OFF"})


def reverse(old, new, clauses):
    """Return the reversed mapping of a change."""
    changes = ReverseChanges.of(old, new, alter_of("s", "t", clauses))
    return reverse_mapping(new, old, changes, "+00:00")


def pairs(mapping):
    """Return the pairs as names."""
    return [(pair.old.name, pair.new.name) for pair in mapping.pairs]


def test_columns_that_swapped_names_swap_them_back():
    """Two columns that swapped their names swap them back."""
    old = table(column("id"), column("a"), column("b"), PRIMARY)
    new = table(column("id"), column("b"), column("a"), PRIMARY)
    mapping = reverse(old, new, "RENAME COLUMN a TO b, RENAME COLUMN b TO a")
    assert sorted(pairs(mapping)) == [("a", "b"), ("b", "a"), ("id", "id")]
    assert losses_of(mapping, "s.t") == []


def test_added_columns_are_lost_and_said():
    """A column of the new table alone has no pair; a generated one is no loss."""
    old = table(column("id"), PRIMARY)
    new = table(column("id"), column("n"), column("g", generated="VIRTUAL"), PRIMARY)
    mapping = reverse(old, new, "ADD COLUMN n INT, ADD COLUMN g INT AS (id + 1)")
    assert pairs(mapping) == [("id", "id")]
    assert losses_of(mapping, "s.t") == ["s.t: a revert loses the values of column n"]


def test_dropped_columns_are_kept():
    """A column of the old table alone is never written."""
    old = table(column("id"), column("gone", nullable=True), PRIMARY)
    new = table(column("id"), PRIMARY)
    mapping = reverse(old, new, "DROP COLUMN gone")
    assert [one.name for one in mapping.kept] == ["gone"]
    assert mapping.insert_names == ("id",)
    assert losses_of(mapping, "s.t") == [
        (
            "s.t: column gone will have the default in rows that were written after the swap, and"
            " the old values in all others"
        )
    ]


def test_dropped_and_added_under_one_name():
    """A column that was replaced by another of its name is lost on one side, kept on the other."""
    old = table(column("id"), column("c", nullable=True), PRIMARY)
    new = table(column("id"), column("c", "varchar(10)"), PRIMARY)
    mapping = reverse(old, new, "DROP COLUMN c, ADD COLUMN c VARCHAR(10) NOT NULL")
    assert pairs(mapping) == [("id", "id")]
    lost, kept = losses_of(mapping, "s.t")
    assert lost == "s.t: a revert loses the values of column c"
    assert kept.startswith("s.t: column c will have the default")


def test_a_narrowed_column_is_named_with_both_types():
    """What is converted back is named with both types."""
    old = table(column("id"), column("v", "int"), PRIMARY)
    new = table(column("id"), column("v", "bigint"), PRIMARY)
    mapping = reverse(old, new, "MODIFY v BIGINT NOT NULL")
    assert not mapping.converted
    assert losses_of(mapping, "s.t") == [
        (
            "s.t: v is converted back from bigint to int; a value that does not fit ends reverse"
            " replication"
        )
    ]


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        ("char(20)", "varchar(20)", "cut without an error"),
        ("char(20)", "text", "cut without an error"),
        ("binary(20)", "varbinary(20)", "zero bytes without an error"),
        ("char(20)", "char(30)", ""),
        ("varchar(20)", "char(20)", ""),
    ],
)
def test_what_a_column_of_fixed_length_does_to_values_is_said(was, becomes, said):
    """CHAR cuts trailing blanks and BINARY adds zeros: neither is a conversion, or narrower."""
    old = table(column("id"), column("v", was), PRIMARY)
    new = table(column("id"), column("v", becomes), PRIMARY)
    lines = losses_of(reverse(old, new, f"MODIFY v {becomes} NOT NULL"), "s.t")
    assert sum(line.endswith(said) for line in lines if said) == bool(said)
    assert not any("without an error" in line for line in lines if not said)


@pytest.mark.parametrize(
    ("was", "becomes", "rounded"),
    [
        ("datetime", "datetime(6)", True),
        ("datetime(6)", "datetime(3)", False),
        ("datetime(3)", "timestamp(3)", False),
        ("time", "datetime", True),
        ("float", "double", True),
        ("double", "float", False),
        ("int", "double", True),
        ("int", "decimal(10,2)", True),
        ("int", "bigint", False),
        ("double", "int", False),
        ("double", "bigint", True),
        ("decimal(10,2)", "decimal(10,4)", False),
    ],
)
def test_what_the_server_rounds_without_a_warning_is_said(was, becomes, rounded):
    """Measured: a note comes for DECIMAL with fewer digits alone, and ends reverse replication."""
    old = table(column("id"), column("v", was), PRIMARY)
    new = table(column("id"), column("v", becomes), PRIMARY)
    said = "".join(losses_of(reverse(old, new, f"MODIFY v {becomes} NOT NULL"), "s.t"))
    assert ("is rounded or cut without an error" in said) == rounded


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        ("varchar(20)", "enum('a','b')", True),
        ("timestamp", "date", True),
        ("varchar(20)", "datetime", True),
        ("int", "date", True),
        ("double", "bigint unsigned", True),
        ("varchar(20)", "int", False),
        ("int", "varchar(20)", False),
        ("datetime(6)", "datetime", False),
        ("enum('a','b')", "varchar(20)", False),
    ],
)
def test_what_is_written_over_in_every_row_is_said(was, becomes, said):
    """No expression tells which values the conversion has made one."""
    old = table(column("id"), column("v", was), PRIMARY)
    new = table(column("id"), column("v", becomes), PRIMARY)
    lines = losses_of(reverse(old, new, f"MODIFY v {becomes} NOT NULL"), "s.t")
    assert any("a revert writes v over where the change" in line for line in lines) == said


def test_a_column_that_may_be_null_now_is_named():
    """The first NULL is refused by the old table (error 1048)."""
    old = table(column("id"), column("v"), PRIMARY)
    new = table(column("id"), column("v", nullable=True), PRIMARY)
    assert losses_of(reverse(old, new, "MODIFY v INT NULL"), "s.t") == [
        (
            "s.t: v may be NULL now, and not in the old table; the first NULL that is written ends"
            " reverse replication"
        )
    ]
    assert losses_of(reverse(new, old, "MODIFY v INT NOT NULL"), "s.t") == []


def test_a_null_that_would_become_the_current_time_is_refused_before_the_copy():
    """Under explicit_defaults_for_timestamp=OFF the first NULL is no error."""
    old = table(column("id"), column("ts", "timestamp"), PRIMARY)
    new = table(column("id"), column("ts", "timestamp", nullable=True), PRIMARY)
    nullable = alter_of("s", "t", "MODIFY ts TIMESTAMP NULL")
    mapping = build_mapping(old, new, nullable, "+00:00")
    assert plan_reverse(mapping, nullable, UTC).losses
    with pytest.raises(Refusal, match="would store the current time for NULL in ts") as refused:
        plan_reverse(mapping, nullable, OFF)
    assert refused.value.error_code is ErrorCode.REVERSE_NOT_POSSIBLE
    filled = alter_of("s", "t", "MODIFY ts TIMESTAMP NOT NULL")
    assert plan_reverse(build_mapping(new, old, filled, "+00:00"), filled, OFF).old == "_t_old"


def test_a_setting_that_is_off_ends_no_way_back(monkeypatch):
    """It may be so after a restart, a failover or an upgrade, and no NULL was written yet."""
    old = table(column("id"), column("ts", "timestamp"), PRIMARY, name="_t_old")
    new = table(column("id"), column("ts", "timestamp", nullable=True), PRIMARY)
    nullable = alter_of("s", "t", "MODIFY ts TIMESTAMP NULL")
    kept = plan_reverse(
        build_mapping(replace(old, name="t"), new, nullable, "+00:00"), nullable, UTC
    )
    monkeypatch.setattr(feed, "drop_guard_columns", lambda *_: None)
    monkeypatch.setattr(feed, "read_table", lambda *name: {"t": new, "_t_old": old}[name[-1]])
    monkeypatch.setattr(feed, "service_of", lambda *_: Service.NONE)
    session: Any = None
    assert feed._mapping(session, session, kept, UTC).pairs
    with pytest.raises(MigrationFailure, match="the current time for NULL in ts") as failed:
        feed._mapping(session, session, kept, OFF)
    assert failed.value.error_code is ErrorCode.SERVER_SETTINGS
    assert failed.value.resumable
    assert "SET PERSIST explicit_defaults_for_timestamp = ON" in failed.value.hint


def test_a_dropped_foreign_key_is_named_with_what_adds_it_again():
    """A revert brings the old table back as it is, and the swap has dropped the key."""
    key = "CONSTRAINT `f``k` FOREIGN KEY (`a`) REFERENCES `p` (`id`) ON DELETE CASCADE"
    stays = "CONSTRAINT `stays` FOREIGN KEY (`id`) REFERENCES `p` (`id`)"
    old = replace(
        table(column("id"), column("a"), PRIMARY),
        create_sql=f"CREATE TABLE `t` (\n  `id` int,\n  {key},\n  {stays}\n) ENGINE=InnoDB",
    )
    statement = alter_of("s", "t", "DROP FOREIGN KEY `F``K`, DROP CONSTRAINT other")
    plan = plan_reverse(build_mapping(old, old, statement, "+00:00"), statement, UTC)
    assert plan.losses == (f"s.t: {NOT_BROUGHT_BACK}ALTER TABLE `s`.`t` ADD {key}",)
    assert ReverseRecord(tables=(plan,)).losses == list(plan.losses)


@pytest.mark.parametrize(
    "line",
    [
        "s.t: {}DROP TABLE `s`.`t`",
        "s.t: {}ALTER TABLE `s`.`other` ADD {}",
        "s.t: {}ALTER TABLE `s`.`t` ADD {}, DROP COLUMN v",
        "s.t: {}ALTER TABLE `s`.`t` ADD {}; DROP DATABASE s",
        "other.t: a revert loses the values of column v",
    ],
)
def test_a_record_has_no_statement_told_but_one_that_adds_a_key(line):
    """R26: an operator is shown it, to be run with their own rights."""
    key = "CONSTRAINT `k` FOREIGN KEY (`a`, `b`) REFERENCES `q`.`p` (`a`, `b`) ON UPDATE SET NULL"
    own = f"s.t: {NOT_BROUGHT_BACK}ALTER TABLE `s`.`t` ADD {key}"
    losses = (line.format(NOT_BROUGHT_BACK, key), own, "s.t: a revert loses the values of column v")
    forged = ReverseTable(schema="s", table="t", old="_t_old", undone="_t_undone", losses=losses)
    assert ReverseRecord(tables=(forged,)).losses == list(losses[1:])


def test_a_dropped_column_without_a_value_is_refused():
    """Rows written after the swap could not be put into the old table."""
    old = table(column("id"), column("gone"), PRIMARY)
    new = table(column("id"), PRIMARY)
    with pytest.raises(Refusal, match="gone of t is NOT NULL without a default"):
        reverse(old, new, "DROP COLUMN gone")


def test_a_dropped_column_beside_a_second_unique_key_is_refused():
    """A unique value that moves would mix up the rows' kept values."""
    unique = index("u", "u")
    old = table(column("id"), column("u"), column("gone", nullable=True), PRIMARY, unique)
    new = table(column("id"), column("u"), PRIMARY, unique)
    with pytest.raises(Refusal, match="with the unique key u beside PRIMARY"):
        reverse(old, new, "DROP COLUMN gone")


def test_a_unique_key_that_holds_the_key_is_no_second_one():
    """Two different keys never meet in an index that has all of the key's columns."""
    wider = index("u", "u", "id")
    old = table(column("id"), column("u"), column("gone", nullable=True), PRIMARY, wider)
    new = table(column("id"), column("u"), PRIMARY, wider)
    assert reverse(old, new, "DROP COLUMN gone").kept


def test_no_common_key_is_refused():
    """Without a key that both definitions have no reverse replication."""
    old = table(column("id"), column("a"), PRIMARY, index("a", "a"))
    new = table(column("id", nullable=True), column("a"), index("a", "a", unique=False))
    with pytest.raises(Refusal, match="reverse replication is not possible: no key identifies"):
        reverse(old, new, "DROP PRIMARY KEY")


def test_the_plan_says_what_a_later_process_needs():
    """Names, changes and losses are in the plan; the mapping can be built from it again."""
    old = table(column("id"), column("a"), column("gone", nullable=True), PRIMARY)
    new = table(column("id"), column("b"), column("n"), PRIMARY)
    statement = alter_of("s", "t", "RENAME COLUMN a TO b, DROP COLUMN gone, ADD COLUMN n INT")
    plan = plan_reverse(build_mapping(old, new, statement, "+00:00"), statement, UTC)
    assert (plan.old, plan.undone) == ("_t_old", "_t_undone")
    assert plan.changes == ReverseChanges(
        renames={"b": "a"}, added=frozenset({"gone"}), dropped=frozenset({"n"})
    )
    assert len(plan.losses) == 2
    again = reverse_mapping(new, old, plan.changes, "+00:00")
    assert pairs(again) == [("id", "id"), ("b", "a")]


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (
            column("k", "varchar(20)", collation="utf8mb4_general_ci", pad_space=True),
            column("k", "varchar(20)", collation="utf8mb4_bin", pad_space=True),
        ),
        (
            column("k", "char(20)", collation="utf8mb4_0900_ai_ci"),
            column("k", "varchar(20)", collation="utf8mb4_0900_ai_ci"),
        ),
    ],
)
def test_a_dropped_column_beside_a_key_that_merges_is_refused(was, becomes):
    """Two new rows that the old key holds for one: one of them would take the other's values."""
    key = index("PRIMARY", "k")
    old = table(was, column("gone", nullable=True), key)
    new = table(becomes, key)
    with pytest.raises(Refusal, match="the old key column k may be the same for two rows"):
        reverse(old, new, f"MODIFY k {becomes.column_type}, DROP COLUMN gone")
    assert not reverse(table(was, key), new, f"MODIFY k {becomes.column_type}").kept


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (column("k", "int"), column("k", "bigint")),
        (column("k", "int unsigned"), column("k", "bigint")),
        (column("k", "varchar(20)"), column("k", "varchar(40)")),
    ],
)
def test_a_dropped_column_beside_a_wider_key_is_kept(was, becomes):
    """What does not fit the old key is an error, and never another row's key."""
    key = index("PRIMARY", "k")
    old = table(was, column("gone", nullable=True), key)
    mapping = reverse(old, table(becomes, key), f"MODIFY k {becomes.column_type}, DROP COLUMN gone")
    assert [one.name for one in mapping.kept] == ["gone"]
