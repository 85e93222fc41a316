"""Django's schema editor and operations on a real server: its session does not hold back a swap."""

from __future__ import annotations

import contextlib
import itertools
import logging
from typing import Any

import django
import pymysql
import pytest
from django.conf import settings
from django.db import models, router, transaction
from django.db.migrations import (
    AddConstraint,
    AddField,
    AlterField,
    CreateModel,
    Migration,
    RemoveField,
    RenameField,
    RenameIndex,
    RunPython,
    RunSQL,
)
from django.db.migrations.optimizer import MigrationOptimizer
from django.db.migrations.state import ProjectState
from django.db.migrations.writer import MigrationWriter
from django.db.models.signals import pre_migrate
from django.db.utils import ConnectionHandler

from spirit_py.errors import Refusal
from spirit_py.frameworks import joining, online, revision
from spirit_py.frameworks.django import AtomicMigration, Online, SpiritAlter, changing, operations
from tests.kits.library import ROWS, fill_rows
from tests.kits.tables import tables

ENGINE = "spirit_py.frameworks.django.mysql"
NOTE: Any = models.CharField(max_length=20, default="100%", db_index=True)
WIDER: Any = AlterField("order", "a", models.BigIntegerField())


@pytest.fixture(scope="module", autouse=True)
def framework():
    """Django, without applications."""
    settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        SPIRIT_PY={},
    )
    django.setup()


@pytest.fixture
def shop(db, caplog):
    """A table of some thousand rows, as Django has it; what the program logs is kept."""
    caplog.set_level(logging.INFO, logger="spirit_py.frameworks.django")
    db.execute("CREATE TABLE shop_order (id INT PRIMARY KEY AUTO_INCREMENT, a INT NOT NULL)")
    fill_rows(db, "INSERT INTO shop_order (a) SELECT i FROM {n}")
    db.execute("ANALYZE TABLE shop_order")
    return Shop(db, caplog)


def _note(connection):
    """Note a migration, as Django does."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE IF NOT EXISTS django_migrations"
            " (id INT PRIMARY KEY AUTO_INCREMENT, app VARCHAR(9), name VARCHAR(9))"
        )
        cursor.execute("INSERT INTO django_migrations (app, name) VALUES ('shop', '0002')")


class Shop:
    """Django's connections to a test's schema, and the state of one model."""

    def __init__(self, db, caplog):
        self._db, self._caplog = db, caplog
        self.state = ProjectState()
        fields: Any = [("id", models.AutoField(primary_key=True)), ("a", models.IntegerField())]
        CreateModel("Order", fields).state_forwards("shop", self.state)

    def connection(self, engine=ENGINE, **more):
        """Return a connection, which is not open yet."""
        server = self._db.server
        reach = {"HOST": server.host, "PORT": server.port, "USER": server.user}
        reach |= {"PASSWORD": server.password, "NAME": self._db.name}
        return ConnectionHandler({"default": {"ENGINE": engine, **reach, **more}})["default"]

    def apply(self, connection, *operations, backwards=False, collect=False):
        """Run the operations as a migration does; return the statements it has collected."""
        migration: Any = Migration("0002", "shop")
        migration.operations = list(operations)
        run = migration.unapply if backwards else migration.apply
        try:
            with connection.schema_editor(collect_sql=collect, atomic=migration.atomic) as editor:
                run(self.state.clone(), editor, collect_sql=collect)
            if not collect and connection.vendor == "mysql":
                _note(connection)
        finally:
            connection.in_atomic_block = False
            connection.close()
        return editor.collected_sql if collect else []

    def changed(self):
        """Return how the program has changed tables, in words."""
        messages = [line for line in self._caplog.messages if "changed (" in line]
        return [line.partition("changed (")[2].partition(")")[0] for line in messages]

    def definition(self):
        """Return the table's definition."""
        return self._db.query("SHOW CREATE TABLE shop_order")[0][1]


@pytest.mark.slow
@pytest.mark.parametrize("engine", [ENGINE, "django.db.backends.mysql"])
def test_an_operation_goes_online_whatever_the_engine_with_all_its_statements(db, shop, engine):
    """Its index, which Django puts off to the end of the migration, goes online too; and back."""
    operation = Online(AddField("order", "note", NOTE), threads=1, no_shortcut=True)
    before = shop.definition()
    shop.apply(shop.connection(engine), operation)
    assert shop.changed() == ["copy"] * 3
    assert "KEY `shop_order_note" in shop.definition()
    assert db.query("SELECT DISTINCT note FROM shop_order") == [("100%",)]
    shop.apply(shop.connection(engine), operation, backwards=True)
    assert shop.changed() == ["copy"] * 4
    assert shop.definition().partition(") ENGINE")[0] == before.partition(") ENGINE")[0]
    assert tables(db) == ["django_migrations", "shop_order"]


@pytest.mark.slow
def test_what_the_connection_has_read_does_not_hold_back_the_swap(db, shop):
    """Without autocommit its session has a metadata lock, which any ALTER would give up (R23)."""
    connection = shop.connection(AUTOCOMMIT=False)
    with connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM shop_order")
    shop.apply(connection, Online(WIDER, cutover_timeout="60s"))
    assert shop.changed() == ["copy"]
    assert "`a` bigint" in shop.definition()


def test_inside_a_transaction_a_change_is_refused(shop):
    """The locks of atomic() would hold back the swap: nothing is begun."""
    connection = shop.connection()
    with pytest.raises(transaction.TransactionManagementError, match="inside a transaction"):
        _in_a_transaction(shop, connection)
    assert shop.changed() == []


def _in_a_transaction(shop, connection):
    connection.ensure_connection()
    connection.in_atomic_block = True
    shop.apply(connection, Online(WIDER))


def test_inside_a_transaction_an_atomic_migration_is_refused_too(db, shop):
    """What its caller has written is not committed: the caller can still take it back."""
    connection = shop.connection()
    _note(connection)
    migration = type("Whole", (AtomicMigration, Migration), {"operations": [WIDER]})
    connection.set_autocommit(False)
    connection.in_atomic_block = True
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO shop_order (a) VALUES (-1)")
    with (
        pytest.raises(transaction.TransactionManagementError, match="inside a transaction"),
        connection.schema_editor(atomic=False) as editor,
    ):
        migration("0003", "shop").apply(shop.state.clone(), editor)
    connection.in_atomic_block = False
    connection.rollback()
    connection.close()
    assert db.query("SELECT COUNT(*) FROM shop_order WHERE a = -1") == [(0,)]
    assert shop.changed() == []


@pytest.mark.slow
def test_the_engine_sends_large_tables_online_and_others_not(db, shop, monkeypatch):
    """The setting says what is large; an empty table is none, so that test databases are quick."""
    db.execute("CREATE TABLE shop_small (id INT PRIMARY KEY AUTO_INCREMENT, a INT NOT NULL)")
    shop.apply(shop.connection(), WIDER)
    assert shop.changed() == []
    monkeypatch.setattr(settings, "SPIRIT_PY", {"min_rows": 1000, "threads": 1, "tables": ["x"]})
    sql = "ALTER TABLE shop_small MODIFY a BIGINT NOT NULL"
    shop.apply(shop.connection(), AlterField("order", "a", models.SmallIntegerField()), RunSQL(sql))
    assert shop.changed() == ["copy"]
    monkeypatch.setattr(settings, "SPIRIT_PY", {"tables": ["shop_small"]})
    shop.apply(shop.connection(), RunSQL(sql.replace("BIGINT", "INT")))
    assert shop.changed() == ["copy"]
    db.execute("INSERT INTO shop_small (a) VALUES (1)")
    shop.apply(shop.connection(), RunSQL(sql))
    assert shop.changed() == ["copy", "copy"]
    assert db.query("SELECT COUNT(*) FROM shop_order") == [(ROWS,)]


@pytest.mark.slow
def test_clauses_are_carried_out_with_what_they_mean_for_the_models(db, shop):
    """Forwards, backwards, as SQL, and in the plan; without a reverse it is irreversible."""
    alter = SpiritAlter(
        "shop_order",
        "ADD COLUMN note VARCHAR(20) NOT NULL DEFAULT '100%', ADD INDEX n (note)",
        reverse="DROP COLUMN note",
        state_operations=[AddField("order", "note", NOTE)],
        threads=1,
    )
    state = shop.state.clone()
    alter.state_forwards("shop", state)
    assert "note" in state.models["shop", "order"].fields
    shop.apply(shop.connection(), alter)
    assert "KEY `n` (`note`)" in shop.definition()
    collected = shop.apply(shop.connection(), alter, collect=True)
    assert collected[-2].startswith("-- spirit-py changes the table online")
    assert collected[-1] == (
        "ALTER TABLE `shop_order` ADD COLUMN note VARCHAR(20) NOT NULL DEFAULT '100%',"
        " ADD INDEX n (note);"
    )
    assert alter.describe().endswith("(online)")
    shop.apply(shop.connection(), alter, backwards=True)
    assert "note" not in shop.definition()
    assert len(shop.changed()) == 2
    assert (alter.reversible, SpiritAlter("t", "ADD x INT").reversible) == (True, False)


def test_clauses_are_for_the_databases_of_the_routers(shop, monkeypatch):
    """As every operation of Django's; the state operations say which model it is."""
    asked: list[tuple[str, str | None]] = []

    class Router:
        def allow_migrate(self, _db, app_label, model_name=None, **_hints):
            asked.append((app_label, model_name))
            return False

    monkeypatch.setattr(router, "routers", [Router()])
    wider = SpiritAlter("nowhere", "FORCE", reverse="FORCE", state_operations=[WIDER])
    shop.apply(shop.connection(), wider)
    shop.apply(shop.connection(), wider, backwards=True)
    shop.apply(shop.connection(), SpiritAlter("nowhere", "FORCE", hints={"model_name": "x"}))
    assert asked == [("shop", "order"), ("shop", "order"), ("shop", "x")]


@pytest.mark.slow
def test_values_beside_a_statement_reach_the_server_whatever_their_type(db, shop, monkeypatch):
    """Bytes are no text; names for values are understood, where nothing goes online too."""
    blob: Any = models.BinaryField(default=b"\x00\xff%'")
    shop.apply(shop.connection(), Online(AddField("order", "blob", blob)))
    assert db.query("SELECT DISTINCT HEX(`blob`) FROM shop_order") == [("00FF2527",)]
    named = "ALTER TABLE shop_order ADD n{} VARCHAR(9) DEFAULT %(word)s"
    for number, policy in enumerate([{}, {"tables": ["shop_order"]}]):
        monkeypatch.setattr(settings, "SPIRIT_PY", policy)
        connection = shop.connection()
        with contextlib.closing(connection), connection.schema_editor(atomic=False) as editor:
            editor.execute(named.format(number), {"word": "5%"})
    assert db.query("SELECT DISTINCT n0, n1 FROM shop_order") == [("5%", "5%")]
    assert len(shop.changed()) == 2


class Stopped(Exception):
    """The run ends here, with a change begun."""


def _buyers(db, shop):
    """Give each row of the table a customer, by a foreign key; and two indexes."""
    db.execute(
        "DROP TABLE IF EXISTS shop_order, shop_customer, _django_migrations_steps;"
        " CREATE TABLE shop_customer (id INT PRIMARY KEY); INSERT INTO shop_customer VALUES (1);"
        " CREATE TABLE shop_order (id INT PRIMARY KEY AUTO_INCREMENT, a INT NOT NULL UNIQUE,"
        " b INT, cust_id INT NOT NULL, KEY by_b (b), KEY by_cust (cust_id),"
        " CONSTRAINT f FOREIGN KEY (cust_id) REFERENCES shop_customer (id));"
        " INSERT INTO shop_order (a, b, cust_id) VALUES (1, 1, 1), (2, 2, 1)"
    )
    shop.state = ProjectState()
    fields: Any = [("id", models.IntegerField(primary_key=True))]
    CreateModel("Customer", fields).state_forwards("shop", shop.state)
    fields = [("id", models.AutoField(primary_key=True)), ("a", models.IntegerField(unique=True))]
    fields += [("b", models.IntegerField(null=True)), ("cust", _customer())]
    CreateModel("Order", fields).state_forwards("shop", shop.state)


def _stopping(change, stop):
    calls = itertools.count(1)

    def stopped(*given, **more):
        if next(calls) == stop:
            raise Stopped
        return change(*given, **more)

    return stopped


def _customer(**more):
    return models.ForeignKey("shop.Customer", models.CASCADE, **more)


@pytest.mark.slow
@pytest.mark.draws(3)
@pytest.mark.parametrize("engine", [ENGINE, "django.db.backends.mysql"])
@pytest.mark.parametrize(
    "changes",
    [
        [AlterField("order", "cust", _customer(null=True))],
        [RemoveField("order", "cust")],
        [RenameField("order", "cust", "buyer")],
        [RenameIndex("order", "by_c", old_fields=("b",))],
        [AlterField("order", "a", models.IntegerField(db_index=True))],
        [AddField("order", "made", models.DateTimeField(auto_now_add=True))],
        [
            AddField(
                "order", "code", models.CharField(max_length=9, default=itertools.count().__next__)
            )
        ],
    ],
    ids=lambda changes: changes[0].describe(),
)
def test_what_django_derives_from_the_server_is_the_same_after_a_stop(
    db, shop, monkeypatch, engine, changes
):
    """It finds its keys as they were, and functions of defaults have the values that they had."""
    sent = {"tables": ["shop_order"]} if engine == ENGINE else {}
    monkeypatch.setattr(settings, "SPIRIT_PY", {"threads": 1, **sent})
    operations = [*changes, WIDER] if engine == ENGINE else [Online([*changes, WIDER])]
    _buyers(db, shop)
    shop.apply(shop.connection(engine), *operations)
    expected = joining.form_of(shop.definition())
    for stop in itertools.count(1):
        _buyers(db, shop)
        with monkeypatch.context() as stopping:
            stopping.setattr(revision, "change", _stopping(online.change, stop))
            try:
                shop.apply(shop.connection(engine), *operations)
                break
            except Stopped:
                pass
        shop.apply(shop.connection(engine), *operations)
        assert joining.form_of(shop.definition()) == expected, shop.definition()
        assert "_django_migrations_steps" not in tables(db)
    assert stop > 1


@pytest.mark.slow
@pytest.mark.parametrize("engine", [ENGINE, "django.db.backends.mysql"])
def test_a_constraint_of_the_model_that_a_copy_has_renamed_stays(db, shop, monkeypatch, engine):
    """Django drops the check of a field's type, and knows others by their names in the model."""
    db.execute(
        "ALTER TABLE shop_order MODIFY a INT UNSIGNED NOT NULL CHECK (a >= 0),"
        " ADD CONSTRAINT a_min CHECK (a >= 7) NOT ENFORCED"
    )
    least: Any = models.CheckConstraint(condition=models.Q(a__gte=7), name="a_min")
    for one in (
        AlterField("order", "a", models.PositiveIntegerField()),
        AddConstraint("order", least),
    ):
        one.state_forwards("shop", shop.state)
    copied = SpiritAlter("shop_order", "ADD COLUMN n INT", threads=1, no_shortcut=True)
    shop.apply(shop.connection(engine), copied)
    assert "`_a_min`" in shop.definition()
    plain = AlterField("order", "a", models.IntegerField())
    shop.apply(shop.connection(engine), plain if engine == ENGINE else Online(plain))
    assert "`a` int NOT NULL" in shop.definition()
    assert shop.definition().count("CHECK (") == 1
    assert "a_min`" in shop.definition()


def test_squashing_moves_nothing_across_clauses():
    """What the clauses need is not known: a column that they index stays until then."""
    fields: Any = [("id", models.AutoField(primary_key=True)), ("a", models.IntegerField())]
    operations = [
        CreateModel("Order", fields),
        SpiritAlter("shop_order", "ADD INDEX i (a)", reverse="DROP INDEX i"),
        RemoveField("order", "a"),
    ]
    assert MigrationOptimizer().optimize(operations, "shop") == operations


def test_a_foreign_key_is_refused_with_its_remedy(shop):
    """It cannot be added online, and is not added by an ALTER that keeps writers out either."""
    fields: Any = [("id", models.AutoField(primary_key=True))]
    CreateModel("Customer", fields).state_forwards("shop", shop.state)
    key: Any = models.ForeignKey("shop.Customer", models.CASCADE, null=True)
    with pytest.raises(Refusal, match="foreign key") as refused:
        shop.apply(shop.connection(), Online(AddField("order", "customer", key)))
    assert "in a command of its own" in refused.value.hint
    assert shop.changed() == []


@pytest.mark.slow
def test_a_foreign_key_in_two_steps_goes_online(db, shop, monkeypatch):
    """Its index comes at the end of a migration, or of Online: the key needs it."""
    monkeypatch.setattr(settings, "SPIRIT_PY", {"tables": ["shop_order"], "threads": 1})
    db.execute("CREATE TABLE shop_customer (id INT PRIMARY KEY)")
    fields: Any = [("id", models.AutoField(primary_key=True))]
    CreateModel("Customer", fields).state_forwards("shop", shop.state)
    column = AddField("order", "cust", _customer(null=True, db_constraint=False))
    add = "ALTER TABLE shop_order ADD CONSTRAINT f FOREIGN KEY (cust_id)"
    key = RunSQL(f"{add} REFERENCES shop_customer (id)")
    with pytest.raises(Refusal, match="index"):
        shop.apply(shop.connection(), column, key)
    shop.apply(shop.connection(), Online(column), key)
    assert "CONSTRAINT `f`" in shop.definition()


def test_what_cannot_go_online_is_refused_and_not_sent_as_it_is(shop, monkeypatch):
    """Where the change was to go online, asked for or by the settings: no ALTER blocks a writer."""
    clauses = "ADD COLUMN b INT /*!80023 INVISIBLE */"
    with pytest.raises(Refusal, match="some servers execute"):
        shop.apply(shop.connection(), SpiritAlter("shop_order", clauses))
    monkeypatch.setattr(settings, "SPIRIT_PY", {"min_rows": 1000})
    with pytest.raises(Refusal, match="some servers execute"):
        shop.apply(shop.connection(), RunSQL([f"ALTER TABLE shop_order {clauses}"]))
    assert "`b`" not in shop.definition()


def test_on_another_database_the_operations_are_django_s(shop):
    """As for tests on SQLite: clauses are passed over, what they mean is carried out."""
    create = CreateModel(
        "Order", [("id", models.AutoField(primary_key=True)), ("a", models.IntegerField())]
    )
    shop.state = ProjectState()
    alter = SpiritAlter("shop_order", "nonsense", "x", [AddField("order", "note", NOTE)])
    drop = Online([RemoveField("order", "a"), RemoveField("order", "note")])
    shop.apply(django.db.connection, create, alter, drop)


def test_mariadb_is_another_database(shop, monkeypatch):
    """Its vendor is MySQL's, and it does not know what a session of MySQL is asked."""

    def ask(_session):
        raise AssertionError("it was asked")

    monkeypatch.setattr(online, "look_around", ask)
    monkeypatch.setattr(revision, "look_around", ask)
    monkeypatch.setattr(settings, "SPIRIT_PY", {"min_rows": 1})
    connection = shop.connection()
    connection.ensure_connection()
    vars(connection)["mysql_is_mariadb"] = True
    monkeypatch.setattr(operations, "connections", {"other": connection})
    pre_migrate.send(sender=None, using="other")
    added = [AddField("order", "note", NOTE)]
    shop.apply(connection, WIDER, Online(WIDER), SpiritAlter("x", "FORCE", "", added))
    assert "`note`" in shop.definition()
    assert shop.changed() == []


def test_a_command_looks_once_for_what_an_earlier_one_has_left(shop, monkeypatch):
    """Django sends its signal for each application, always with the one plan."""
    began = []
    monkeypatch.setattr(operations, "begin", lambda *given: began.append(given[1]))
    connection = shop.connection()
    monkeypatch.setattr(operations, "connections", {"other": connection})
    plans: Any = [[], [(Migration("0002", "shop"), False)]]
    with contextlib.closing(connection):
        for plan in plans:
            for _ in range(3):
                pre_migrate.send(sender=None, using="other", plan=plan)
    assert began == [(), plans[1]]


@pytest.mark.slow
def test_a_function_begins_after_the_change_before_it(shop, monkeypatch):
    """It may look at the table by another connection than that which changes it."""
    monkeypatch.setattr(settings, "SPIRIT_PY", {"tables": ["shop_order"], "threads": 1})
    seen = []
    look = RunPython(lambda *_: seen.append("`a` bigint" in shop.definition()))
    connection = shop.connection()
    monkeypatch.setattr(transaction, "get_connection", lambda _: connection)
    shop.apply(connection, WIDER, look)
    assert seen == [True]


@pytest.mark.slow
@pytest.mark.parametrize("case", ["at the end", "in what is put off", "as a whole"])
def test_a_connection_goes_on_after_a_change_has_failed(db, shop, monkeypatch, case):
    """Its next queries are not refused, and the same migration can be run again."""

    def refuse(*_, **__):
        raise Refusal("not now")

    sent = {} if case == "as a whole" else {"tables": ["shop_order"]}
    monkeypatch.setattr(settings, "SPIRIT_PY", {"threads": 1, **sent})
    fields: Any = [("id", models.AutoField(primary_key=True)), ("note", NOTE)]
    whole = type("Whole", (AtomicMigration, Migration), {})
    migration = (whole if case == "as a whole" else Migration)("0002", "shop")
    migration.operations = [WIDER]
    if case == "in what is put off":
        migration.operations = [CreateModel("Small", fields), WIDER]
    engine = "django.db.backends.mysql" if case == "as a whole" else ENGINE
    with contextlib.closing(shop.connection(engine)) as connection:
        with monkeypatch.context() as refusing:
            refusing.setattr(revision, "change", refuse)
            with pytest.raises(Refusal, match="not now"), connection.schema_editor() as editor:
                migration.apply(shop.state.clone(), editor)
        with connection.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM shop_order")
            assert cursor.fetchone() == (ROWS,)
        changing.begin(connection, [])
        with connection.schema_editor() as editor:
            migration.apply(shop.state.clone(), editor)
    assert "`a` bigint" in shop.definition()


def test_a_driver_in_the_place_of_mysqlclient_keeps_its_checks(shop):
    """PyMySQL proves the name of the server where mysqlclient proves its certificate alone."""
    connection = shop.connection(OPTIONS={"ssl": {"ca": "/ca.pem"}})
    assert "ssl_mode" not in changing._told(connection, {})
    connection.Database = pymysql
    assert changing._told(connection, {})["ssl_mode"] == "VERIFY_IDENTITY"


def test_what_wraps_statements_for_a_while_takes_itself_away_and_not_ours(shop):
    """Django's context takes the last wrapper, and ours follows the connection for good."""
    connection = shop.connection()

    def theirs(execute, *sent):
        return execute(*sent)

    with connection.execute_wrapper(theirs):
        changing.revision_of(connection)
    (left,) = connection.execute_wrappers
    assert left is not theirs


def test_the_migration_writer_writes_the_operations(shop):
    """Makemigrations and squashmigrations write them as they were."""
    migration: Any = Migration("0002", "shop")
    migration.operations = [
        Online(AddField("order", "note", NOTE), threads=1),
        SpiritAlter("t", "ADD x INT", state_operations=[RemoveField("order", "a")], nice=0.5),
    ]
    written: dict[str, Any] = {}
    exec(MigrationWriter(migration, include_header=False).as_string(), written)  # noqa: S102
    again = written["Migration"].operations
    assert [one.deconstruct()[0] for one in again] == ["Online", "SpiritAlter"]
    assert again[0].options == {"threads": 1}
    assert (again[1].table, again[1].clauses, again[1].options) == ("t", "ADD x INT", {"nice": 0.5})
    assert again[1].state_operations[0].name == "a"
