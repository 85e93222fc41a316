"""The settings of ``spirit-py ctl set``: units, limits, and what is shown can be given again."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from spirit_py import cli
from spirit_py.errors import UsageFault
from spirit_py.migration.control.settings import SETTINGS, read_changes, shown
from spirit_py.throttle.settings import PaceSettings


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("threads", "2", "threads", 2),
        ("chunk-time", "200ms", "target_chunk_time", 0.2),
        ("chunk-time", "1.5", "target_chunk_time", 1.5),
        ("nice", "0.5", "nice", 0.5),
        ("aggressive", "on", "aggressive", True),
        ("aggressive", "off", "aggressive", False),
        ("max-lag", "5s", "max_lag", 5.0),
        ("max-lag", "500ms", "max_lag", 0.5),
        ("max-lag", "off", "max_lag", None),
        (
            "max-load",
            "Threads_running=25,Threads_connected=500",
            "max_load",
            (("Threads_running", 25.0), ("Threads_connected", 500.0)),
        ),
        ("max-load", "off", "max_load", ()),
        ("critical-load", "Threads_running=100", "critical_load", (("Threads_running", 100.0),)),
    ],
)
def test_a_value_has_the_units_of_the_option(name, text, field, value):
    """Durations take ms, s, m and h; limits can be lifted."""
    assert read_changes({name: text}) == {field: value}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("threads", "0"),
        ("threads", "257"),
        ("threads", "two"),
        ("threads", "1.5"),
        ("chunk-time", "0"),
        ("chunk-time", "2m"),
        ("chunk-time", "5 parsecs"),
        ("nice", "-1"),
        ("nice", "nan"),
        ("nice", "1e9"),
        ("aggressive", "very"),
        ("max-lag", "0s"),
        ("max-lag", ""),
        ("max-load", "Threads_running"),
        ("max-load", "Threads_running=-1"),
        ("max-load", "Threads_running=nan"),
        ("max-load", "a;b=1"),
        ("speed", "3"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_what_can(name, text):
    """Nothing of the request takes effect then."""
    with pytest.raises(UsageFault) as refused:
        read_changes({"nice": "1", name: text})
    assert name in refused.value.message
    assert refused.value.hint


def test_what_is_shown_can_be_given_again():
    """A command line is compared with what an operator had set over it in this form."""
    settings = PaceSettings(
        threads=3,
        target_chunk_time=0.25,
        nice=1.5,
        max_lag=90.0,
        max_load=(("Threads_running", 25.0),),
    )
    texts = shown(settings)
    assert set(texts) == set(SETTINGS)
    assert texts["chunk-time"] == "250ms"
    fields = read_changes(texts)
    assert {name: getattr(settings, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["set"], "nothing is set"),
        (["set", "threads"], "not NAME=VALUE"),
        (["set", "threads=1", "threads=2"], "given twice"),
        (["set", "threads=none"], "threads cannot be"),
        (["throttle"], "needs one ratio"),
        (["throttle", "fast"], "nice cannot be"),
        (["pause", "now"], "takes no value"),
        (["pause", "--cleanup"], "goes with abort"),
    ],
)
def test_a_wrong_command_line_asks_nobody(words, part):
    """It is refused before a server is reached."""
    line = ["ctl", "--user", "u", "--database", "shop", "--table", "t", *words]
    ended = CliRunner().invoke(cli.main, line)
    assert ended.exit_code == 2
    assert part in ended.stderr


def test_ctl_needs_the_table_named():
    """One process works on one migration."""
    ended = CliRunner().invoke(cli.main, ["ctl", "--user", "u", "pause"])
    assert ended.exit_code == 2
    assert "--database and --table are missing" in ended.stderr
