"""Which tables go online."""

from __future__ import annotations

import pytest

from spirit_py.errors import UsageFault
from spirit_py.frameworks.policy import split_settings


def test_settings_are_split_into_policy_and_options():
    """Thresholds and tables are the policy's; all else is an option of the migration."""
    policy, options = split_settings(
        {"min_rows": "1_000_000", "min_size": "20G", "tables": "orders, shop.items", "nice": "1"}
    )
    assert (policy.min_rows, policy.min_size) == (1_000_000, 20 << 30)
    assert policy.tables == {"orders", "shop.items"}
    assert options == {"nice": "1"}


@pytest.mark.parametrize(
    ("settings", "rows", "size", "chosen"),
    [
        ({}, 10**9, 10**12, False),
        ({"min_rows": 100}, 100, 0, True),
        ({"min_rows": 100}, 99, 10**12, False),
        ({"min_size": "1K"}, 0, 1024, True),
        ({"min_size": 1024}, 10**9, 1023, False),
        ({"tables": ["t"]}, 1, 1, True),
        ({"tables": ["s.t"]}, 1, 1, True),
        ({"tables": ["x.t"]}, 1, 1, False),
    ],
)
def test_a_table_is_large_by_any_threshold_or_by_name(settings, rows, size, chosen):
    """Without settings no table is."""
    policy, _ = split_settings(settings)
    assert policy.chooses("s", "t", rows=rows, size=size) is chosen
    assert policy.chooses_any is bool(settings)


@pytest.mark.parametrize("asked", ["Orders", "orders", "Shop.ORDERS"])
def test_letters_of_names_are_alike_where_the_server_takes_them_so(asked):
    """With lower_case_table_names 1 or 2; with 0 they are different tables."""
    policy, _ = split_settings({"tables": [asked]})
    assert policy.chooses("SHOP", "oRDERS", rows=1, size=1, letters_alike=True)
    assert not policy.chooses("SHOP", "oRDERS", rows=1, size=1)


@pytest.mark.parametrize("name", ["keep", "allow_data_loss", "start_afresh"])
def test_what_makes_rows_go_is_no_setting_for_all_tables(name):
    """As no configuration file and no variable says it to the command line."""
    with pytest.raises(UsageFault, match=f"{name} is a setting of the project"):
        split_settings({"tables": "t", name: "1"})
    for nothing in (None, False, "", "false"):
        assert split_settings({"tables": "t", name: nothing})[0].tables == {"t"}


@pytest.mark.parametrize("value", ["many", "-1", "1.5", "20G", ""])
def test_a_threshold_that_is_no_number_is_refused(value):
    """The refusal shows how it is written."""
    with pytest.raises(UsageFault, match="min_rows"):
        split_settings({"min_rows": value})
