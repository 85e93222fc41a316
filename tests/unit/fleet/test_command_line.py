"""From the command line to the configuration of a fleet, and what is refused before any server."""

from __future__ import annotations

import pytest

from spirit_py import cli
from spirit_py.batch.plan import BatchPlan
from spirit_py.cli import fleet
from spirit_py.cli.fleet import fleet_config
from spirit_py.errors import UsageFault
from spirit_py.fleet.planning import ServerPlan
from spirit_py.fleet.records import ServerRecords
from spirit_py.fleet.servers import of_file

LIST = """
mysql://db1:3307/shop_1 name=a region=eu
mysql://db2/shop_2 name=b region=us
"""


@pytest.fixture
def listed(tmp_path):
    """Return the name of a list of two servers."""
    file = tmp_path / "servers"
    file.write_text(LIST)
    return str(file)


def config_of(listed, *words, own=("--no-defaults", "--user", "u"), file=None):
    """Return the configuration that a command line means, beside a configuration file."""
    line = [*own, "--servers", listed, *words]
    of_file = ["--config", str(file)] if file else []
    parent = cli.main.make_context("spirit-py", [*of_file, "migrate"]) if file else None
    context = cli.main.commands["migrate"].make_context("migrate", line, parent=parent)
    with context:
        return fleet_config(context.params)


CHANGE = ("--table", "orders", "--alter", "ADD  COLUMN\n n INT")


def test_each_server_gets_its_part(listed):
    """A batch of one table in its own schema; the same change is the same fleet."""
    config = config_of(listed, *CHANGE, "--canary", "1", "--at-once-of", "region=2")
    first, second = config.servers
    assert (first.name, dict(first.labels)) == ("a", {"region": "eu"})
    assert (first.batch.each.connection.host, first.batch.each.connection.port) == ("db1", 3307)
    assert (first.batch.each.database, second.batch.each.database) == ("shop_1", "shop_2")
    assert first.batch.patterns == second.batch.patterns == ("`orders`",)
    assert first.batch.fleet == second.batch.fleet
    assert (config.canary, config.at_once, config.at_once_of) == (1, 4, (("region", 2),))
    again = config_of(listed, "--table", "orders", "--alter", "ADD COLUMN n INT")
    assert again.servers[0].batch.fleet == first.batch.fleet
    other = config_of(listed, "--table", "orders", "--alter", "ADD COLUMN N INT")
    kept = config_of(listed, *CHANGE, "--keep", "id > 5")
    names = {one.servers[0].batch.fleet for one in (config, other, kept)}
    assert len(names) == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("--table", "orders", "--alter", "add column n int"), CHANGE),
        (("--tables", "`orders`", "--alter", "ADD COLUMN `n` INT"), CHANGE),
        (
            ("--tables", "a", "--tables", "b", "--alter", "FORCE"),
            ("--tables", "b", "--tables", "a", "--alter", "force"),
        ),
        (
            ("--statement", "ALTER TABLE orders ADD COLUMN n INT"),
            ("--statement", "alter table `orders` add column `n` int;"),
        ),
        (("--table", "orders", "--keep", "id > 5"), ("--table", "orders", "--keep", "id > 5")),
    ],
)
def test_the_same_batch_by_another_spelling_is_the_same_fleet(listed, one, other):
    """Else an order reaches the records of one of them alone, or is refused for good."""
    first, second = (config_of(listed, *words).servers[0].batch.fleet for words in (one, other))
    assert first == second


def test_what_is_another_batch_is_another_fleet(listed):
    """Its records have other names; what cannot be read is another one, and is refused later."""
    words = [
        CHANGE,
        (*CHANGE, "--keep", "id > 5"),
        (*CHANGE, "--sql-mode", "ANSI_QUOTES"),
        ("--table", "orders", "--alter", "ADD COLUMN `n"),
        ("--table", "orders", "--alter", "ADD COLUMN `m"),
    ]
    fleets = {config_of(listed, *one).servers[0].batch.fleet for one in words}
    assert len(fleets) == len(words)


@pytest.mark.parametrize("at", ["mysql://db1", "mysql://db1/shop"])
def test_a_server_has_one_place_for_the_command_and_for_its_control(tmp_path, at):
    """Nobody gives ``ctl`` the schema that ``migrate`` had by --database."""
    file = tmp_path / "servers"
    file.write_text(at)
    (server,) = config_of(str(file), *CHANGE, "--database", "shop").servers
    batch = BatchPlan(name="b", server_uuid="u", tables=())
    line = ["--no-defaults", "--user", "u", "--fleet", str(file), "pause"]
    with cli.main.commands["ctl"].make_context("ctl", line) as context:
        member = fleet._member(of_file(file)[0], context.params)
    part = ServerRecords(member=member, table="", identity="u host 3306")
    assert part.place == ServerPlan(server=server, batch=batch).place


def test_an_archive_has_a_folder_for_each_server(listed):
    """Two shards with the same schema and table would write into one."""
    config = config_of(listed, *CHANGE, "--keep", "id > 5", "--archive-to", "/archive/")
    assert [one.batch.each.archive_to for one in config.servers] == ["/archive/a", "/archive/b"]


def test_what_is_recorded_is_recorded_once(listed, tmp_path):
    """By the coordinator: a process of a server has no file and no hook."""
    report = str(tmp_path / "report.json")
    config = config_of(listed, *CHANGE, "--report-json", report, "--on-event", "true")
    assert str(config.records.report_json) == report
    for one in config.servers:
        assert one.batch.records.report_json is None
        assert one.batch.records.on_event == ""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--table", "orders"), "--alter is missing"),
        (("--alter", "FORCE"), "neither a table nor a statement"),
        (("--statement", "ALTER TABLE a FORCE; ALTER TABLE b FORCE"), "at the same moment"),
        (("--statement", "ALTER TABLE a FORCE", "--table", "b"), "the change is not clear"),
        ((*CHANGE, "--host", "db3"), "--host is of one server"),
        ((*CHANGE, "--replica", "db3"), "--replica"),
        ((*CHANGE, "--database", "other"), "a: two schemas"),
        ((*CHANGE, "--waves-by", "zone"), "no server of the list has this label"),
        ((*CHANGE, "--at-once-of", "region"), "is not LABEL=NUMBER"),
        ((*CHANGE, "--at-once-of", "region=0"), "is not LABEL=NUMBER"),
        ((*CHANGE, "--keep-old-current", "1h"), "a: --keep-old-current"),
        (
            (*CHANGE, "--keep", "1", "--archive-to", "/a", "--spark-master", "yarn"),
            "--archive-to does not go with --servers and --spark-master",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(listed, words, told):
    """Before any server is asked."""
    with pytest.raises(UsageFault, match=told):
        config_of(listed, *words)


def test_a_default_of_a_file_hides_no_entry(tmp_path):
    """Its schema and account are of this run; a file's hold where the entry has none."""
    file = tmp_path / "config.toml"
    file.write_text('[all]\nuser = "team"\ndatabase = "other"\ndefaults-group-suffix = "_all"')
    stored = tmp_path / "my.cnf"
    stored.write_text("[client_b]\nuser = second\npassword = x\n[client_all]\npassword = y")
    listed = tmp_path / "servers.toml"
    listed.write_text(
        '[[server]]\nhost = "db1"\ndatabase = "s"\n'
        '[[server]]\ndsn = "mysql://db2/s"\ngroup_suffix = "_b"\n'
        '[[server]]\nhost = "db3"\n'
    )
    own = ("--defaults-file", str(stored))
    config = config_of(str(listed), *CHANGE, own=own, file=file)
    reached = [(one.batch.each.connection, one.batch.each.database) for one in config.servers]
    assert [(to.user, to.password, schema) for to, schema in reached] == [
        ("team", "y", "s"),
        ("second", "x", "s"),
        ("team", "y", "other"),
    ]
    (typed, *_) = config_of(
        str(listed), *CHANGE, "--database", "s", own=(*own, "--user", "me"), file=file
    ).servers
    assert typed.batch.each.connection.user == "me"


def test_two_schemas_of_one_entry_are_refused_beside_a_file(tmp_path):
    """The default of the file speaks for neither."""
    file = tmp_path / "config.toml"
    file.write_text('[all]\ndatabase = "other"')
    listed = tmp_path / "servers.toml"
    listed.write_text('[[server]]\ndsn = "mysql://db1/s"\ndatabase = "r"\nname = "a"')
    with pytest.raises(UsageFault, match="a: two schemas: r and s, in the list"):
        config_of(str(listed), *CHANGE, file=file)
