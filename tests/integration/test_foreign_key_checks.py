"""Which foreign keys are refused, by name, and what the account needs for the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from spirit_py.attached.foreign_keys import rules
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.config import FeedOptions
from spirit_py.errors import Refusal
from spirit_py.mysql.connect import connect
from spirit_py.mysql.facts import ServerFacts
from spirit_py.mysql.tables.identity import drop_unreferenced
from spirit_py.mysql.tables.new_table import NewTable
from spirit_py.preflight.checks import attached
from spirit_py.preflight.preflight import check_after_create, check_before_create, prepare
from spirit_py.table.names import AuxiliaryNames
from tests.kits.connection import account, granted
from tests.kits.migrate import Migrating, config_for
from tests.kits.schema_tools import open_schema_tools

PARENT = "CREATE TABLE p (id INT PRIMARY KEY, u INT, UNIQUE (u))"
TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, up INT, KEY (b),"
    " CONSTRAINT of_t FOREIGN KEY (a) REFERENCES p (id))"
)
CHILD = (
    "CREATE TABLE c (id INT PRIMARY KEY, a INT, CONSTRAINT to_t FOREIGN KEY (a) REFERENCES t (id))"
)
NATIVE = {"innodb_native_foreign_keys": "ON"}


@pytest.fixture
def desk(db):
    """Open a desk in a schema with a parent, the table and a child."""
    for table in (PARENT, TABLE, CHILD):
        db.execute(table)
    with open_schema_tools(db) as found:
        yield found


def findings(desk, alter: str, session: Any = None, **changed: str) -> list[str]:
    """Run all checks; return the causes of the warnings, or the refusal line by line.

    Args:
        changed: variables of the server, and its version, that are to be other than they are.
    """
    (context,) = prepare(session or desk.session, desk.config(alter))
    facts = ServerFacts(
        version=changed.pop("version", "9.7.4"),
        variables={**context.facts.variables, "innodb_native_foreign_keys": "OFF"} | changed,
    )
    context = replace(context, facts=facts)
    try:
        warnings = check_before_create([context])
        target = NewTable(desk.session, desk.native, context.source, context.statement).create()
        try:
            warnings += check_after_create(context, target)[1]
        finally:
            drop_unreferenced(desk.session, desk.schema, AuxiliaryNames.of("t").new)
    except Refusal as error:
        return [error.message, error.hint, *error.details]
    return [warning.cause for warning in warnings if warning.check.startswith("foreign")]


def test_keys_without_actions_pass_on_every_server(desk):
    """NO ACTION and RESTRICT change no row, so no binlog need have it."""
    assert findings(desk, "ADD z INT") == []
    assert findings(desk, "ADD z INT", version="8.0.36") == []
    assert findings(desk, "ADD z INT", **NATIVE) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule", ["ON DELETE CASCADE", "ON UPDATE CASCADE", "ON DELETE SET NULL", "ON UPDATE SET NULL"]
)
@pytest.mark.parametrize("parent", ["p", "t"])
def test_a_child_whose_rows_change_unseen_is_refused_by_name(db, desk, rule, parent):
    """Where the binlog lacks what foreign keys do, no feed sees it; also in the table itself."""
    db.execute(f"ALTER TABLE t ADD CONSTRAINT acts FOREIGN KEY (b) REFERENCES {parent} (id) {rule}")
    # 9.6 and later log them, but with autocommit wrongly where a cascade ends in a deadlock.
    (warning,) = findings(desk, "ADD z INT")
    assert f"a cascade of foreign key acts of {db.name}.t" in warning
    assert "ends in a deadlock" in warning
    for changed, why in (
        ({"version": "9.5.0"}, "MySQL 9.5.0 does not log such changes"),
        ({"version": "8.4.6"}, "MySQL 8.4.6 does not log such changes"),
        (NATIVE, "with innodb_native_foreign_keys=ON the server does not log such changes"),
    ):
        for alter in ("ADD z INT", "ADD z INT, DROP FOREIGN KEY acts"):
            text = "\n".join(findings(desk, alter, **changed))
            assert f"foreign key acts of {db.name}.t to {db.name}.{parent} changes rows" in text
            assert why in text
            assert "9.6 or later" in text


@pytest.mark.parametrize("asked", ["keep_old_current", "drop_old_after"])
def test_a_name_that_only_a_revert_makes_too_long_is_refused(db, desk, asked):
    """Error 1059 at the swap back: _t_undone is longer than _t_old."""
    name = f"t_ibfk_{'x' * 51}"
    db.execute(f"ALTER TABLE t ADD CONSTRAINT {name} FOREIGN KEY (b) REFERENCES p (id)")
    assert findings(desk, "ADD z INT") == []
    (context,) = prepare(desk.session, desk.config("ADD z INT", **{asked: 60.0}))
    (refused,) = attached.foreign_key_actions(context)
    assert "RENAME TABLE to _t_undone would rename" in refused.cause


@pytest.mark.parametrize("rule", ["ON DELETE CASCADE", "ON DELETE SET NULL ON UPDATE CASCADE"])
def test_a_parent_may_have_children_with_any_action(db, desk, rule):
    """Rows of the children are not copied: how they change does not matter."""
    db.execute("ALTER TABLE c DROP FOREIGN KEY to_t")
    db.execute(f"ALTER TABLE c ADD CONSTRAINT to_t FOREIGN KEY (a) REFERENCES t (id) {rule}")
    assert findings(desk, "ADD z INT", **NATIVE) == []


@pytest.mark.parametrize(
    ("alter", "part"),
    [
        ("DROP COLUMN a", "column a of {db}.t cannot be dropped: foreign key of_t"),
        ("DROP COLUMN a, ADD COLUMN a INT", "column a of {db}.t cannot be dropped"),
        (
            "DROP COLUMN id, ADD new INT PRIMARY KEY",
            "cannot be dropped: foreign key to_t of {db}.c",
        ),
        ("DROP FOREIGN KEY nothing", "or leave the clause out ("),
        ("DROP FOREIGN KEY to_t", "has no foreign key to_t"),
        ("DROP FOREIGN KEY a", "has no foreign key a"),
    ],
)
def test_what_a_native_alter_refuses_is_refused_by_name(db, desk, alter, part):
    """Errors 1828, 1829 and 1091: the new table has no keys, so it would not show."""
    found = "\n".join(findings(desk, alter))
    assert part.format(db=db.name) in found
    with pytest.raises(Exception, match=r"\((1828|1829|1091|1846)"):
        db.execute(f"ALTER TABLE t {alter}")


@pytest.mark.parametrize(
    "alter", ["DROP COLUMN a, DROP FOREIGN KEY of_t", "DROP CONSTRAINT OF_T, DROP a", "DROP up"]
)
def test_a_column_goes_with_its_key(desk, alter):
    """A column that no other key needs may be dropped."""
    assert findings(desk, alter) == []


def test_a_constraint_that_is_not_clearly_meant_is_refused(db, desk):
    """Error 3939: the server would drop the CHECK, and nobody the foreign key."""
    db.execute("ALTER TABLE t ADD CONSTRAINT OF_T CHECK (b > 0)")
    assert "names two constraints" in "\n".join(findings(desk, "DROP CONSTRAINT of_t"))
    with pytest.raises(Exception, match="3939"):
        db.execute("ALTER TABLE t DROP CONSTRAINT of_t")


@pytest.mark.slow
def test_many_children_are_warned_of(db, desk):
    """The lock of the swap grows with their number."""
    for number in range(20):
        db.execute(
            f"CREATE TABLE c{number} (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES t (id))"
        )
    (warning,) = findings(desk, "ADD z INT")
    assert "21 tables refer to" in warning


@pytest.mark.slow
def test_many_views_are_warned_of(db, desk, monkeypatch):
    """The server opens all of them under the lock of the swap, those over other views too."""
    monkeypatch.setattr(rules, "MANY_VIEWS", 2)
    for name, read in (("v", "t"), ("w", "v"), ("x", "v")):
        assert findings(desk, "ADD z INT") == []
        db.execute(f"CREATE VIEW {name} AS SELECT * FROM {read}")
    (warning,) = findings(desk, "ADD z INT")
    assert "3 views read" in warning


SCHEMA = (
    "SELECT, INSERT, DELETE, CREATE, DROP, ALTER, INDEX, TRIGGER, LOCK TABLES,"
    " CREATE TEMPORARY TABLES ON {db}.*"
)
GLOBAL = "REPLICATION SLAVE, REPLICATION CLIENT, PROCESS, XA_RECOVER_ADMIN, CONNECTION_ADMIN ON *.*"
SEEN = "SELECT ON performance_schema.*"


@pytest.fixture
def far(db, desk):
    """Move parent and child to another schema; yield its name."""
    name = f"{db.name}_far"
    db.execute(
        "ALTER TABLE t DROP FOREIGN KEY of_t; DROP TABLE c, p;"
        f"CREATE DATABASE {name}; CREATE TABLE {name}.p (id INT PRIMARY KEY);"
        f"ALTER TABLE t ADD CONSTRAINT of_t FOREIGN KEY (a) REFERENCES {name}.p (id);"
        f"CREATE TABLE {name}.c (id INT PRIMARY KEY, a INT, CONSTRAINT to_t FOREIGN KEY (a)"
        f" REFERENCES {db.name}.t (id))"
    )
    yield name
    db.execute(f"SET SESSION foreign_key_checks = 0; DROP DATABASE {name}")


def test_what_the_account_lacks_for_other_tables_is_one_block(db, desk, far):
    """Children that the account may not even see are known; every GRANT is named at once."""
    with account(db, SCHEMA, GLOBAL, SEEN) as options:
        with connect(options, database=db.name, role="driver") as session:
            message, hint = findings(desk, "ADD z INT", session)
        user = f"`{options.user}`@`%`"
    assert f"lacks SELECT, LOCK TABLES, REFERENCES, ALTER on `{far}`.*" in message.replace(
        "SELECT, REFERENCES, LOCK TABLES, ALTER", "SELECT, LOCK TABLES, REFERENCES, ALTER"
    )
    assert f"REFERENCES on `{db.name}`.*" in message
    assert f"ON {granted(far)} TO {user};" in hint
    assert "GRANT REFERENCES, " in hint


def on_far(far):
    """Return what the account needs on the tables of another schema, and in its own."""
    return (
        f"SELECT, REFERENCES ON `{far}`.p",
        f"SELECT, ALTER ON `{far}`.c",
        f"LOCK TABLES ON `{far}`.*",
        "REFERENCES ON {db}.*",
    )


def test_an_unfinished_migration_that_the_account_cannot_see_is_warned_of(db, desk, far):
    """Its tables are refused where they are seen; a grant on the child alone shows none of them."""
    CheckpointTable(far, "c").make(desk.session)
    db.execute(f"CREATE TABLE {far}._c_new LIKE {far}.c")
    (context,) = prepare(desk.session, desk.config("ADD z INT"))
    with pytest.raises(Refusal, match="unfinished migration"):
        list(attached.relatives(context))
    with (
        account(db, SCHEMA, GLOBAL, SEEN, *on_far(far)) as options,
        connect(options, database=db.name, role="driver") as session,
    ):
        (context,) = prepare(session, desk.config("ADD z INT"))
        causes = [one.cause for one in attached.relatives(context)]
    unseen = f"an unfinished migration of {far}.{{}}, which the account cannot see"
    assert [any(unseen.format(name) in one for one in causes) for name in "pc"] == [True, True]


def test_the_grants_that_are_named_are_enough(db, desk, far):
    """Each on the table that needs it; LOCK TABLES is granted on schemas only."""
    with (
        account(db, SCHEMA, GLOBAL, SEEN, *on_far(far)) as options,
        connect(options, database=db.name, role="driver") as session,
    ):
        assert findings(desk, "ADD z INT", session) == []


@pytest.mark.slow
def test_what_the_trial_of_a_key_needs_is_asked_for(db, desk, far, engine):
    """The copy of a parent elsewhere is in the table's own schema."""
    db.execute(f"DROP TABLE `{far}`.c")
    on_far = (f"SELECT, REFERENCES ON `{far}`.p", f"LOCK TABLES ON `{far}`.*")
    with account(db, SCHEMA, GLOBAL, SEEN, *on_far) as options:
        with connect(options, database=db.name, role="driver") as session:
            message, hint = findings(desk, "ADD z INT", session)
        assert message.endswith(f" lacks REFERENCES on `{db.name}`.*")
        db.execute(hint)
        given = {"table": "t", "alter": "ADD z INT", "no_shortcut": True, "connection": options}
        assert Migrating(engine, config_for(db, **given)).end().algorithm == "copy"


def test_other_missing_privileges_are_named_with_those_for_keys(db, desk, far):
    """One block for all: nobody is asked twice."""
    with (
        account(db, SCHEMA.replace("INDEX, ", ""), GLOBAL, SEEN) as options,
        connect(options, database=db.name, role="driver") as session,
    ):
        (context,) = prepare(session, desk.config("ADD z INT"))
        with pytest.raises(Refusal) as refused:
            check_before_create([context])
    assert f"lacks INDEX, REFERENCES on `{db.name}`.*" in refused.value.message
    assert granted(far) in refused.value.hint


M = "CREATE TABLE m (id INT PRIMARY KEY);"
N = "CREATE TABLE n (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES m (id) ON DELETE CASCADE);"
REFERS = "ALTER TABLE t ADD FOREIGN KEY (b) REFERENCES"


@pytest.mark.parametrize(
    ("keys", "refused"),
    [
        (M, False),
        (f"{M}{REFERS} m (id)", False),
        (f"{M}{REFERS} m (id) ON DELETE SET NULL", True),
        (f"{M}{N}{REFERS} n (id)", False),
        (f"{M}{N}{REFERS} n (id) ON DELETE CASCADE", True),
    ],
)
def test_a_table_whose_keys_change_migrated_rows_may_not_be_passed(db, desk, keys, refused):
    """R13: what a STATEMENT-format write cascades to is in no binlog, on any version."""
    db.execute(keys)
    feed = FeedOptions(passable=((db.name, "m"),))
    try:
        desk.before("ADD z INT", feed=feed)
    except Refusal as error:
        text = "\n".join((error.message, *error.details))
        assert refused
        assert f"--pass-statement-writes {db.name}.m: a write to it is one to {db.name}.t" in text
        assert "changes its rows" in text
    else:
        assert not refused


@pytest.mark.slow
def test_the_triggers_of_what_a_trigger_writes_are_followed(db, desk):
    """R13: of a STATEMENT-format write the log has the first statement alone."""
    db.execute("CREATE TABLE m (id INT PRIMARY KEY); CREATE TABLE n LIKE m; CREATE TABLE o LIKE m")
    feed = FeedOptions(passable=((db.name, "m"),))
    fires = "CREATE TRIGGER {0}_to_{1} AFTER INSERT ON {0} FOR EACH ROW INSERT INTO {1} (id)"
    for one, other in (("m", "n"), ("n", "o"), ("o", "n")):
        db.execute(f"{fires.format(one, other)} VALUES (NEW.id)")
    desk.before("ADD z INT", feed=feed)
    db.execute(f"{fires.format('o', 't')} VALUES (NEW.id)")
    with pytest.raises(Refusal, match=rf"{db.name}\.m: the trigger o_to_t of {db.name}\.o names"):
        desk.before("ADD z INT", feed=feed)
