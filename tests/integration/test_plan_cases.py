"""What a plan says of every case of ``tests/cases``, beside what the server and a migration do.

``tests/integration/test_cases.py`` proves what a migration does with each case; here the plan must
have said so. The rules of INSTANT are compared with the server's own answer, on the case's table.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

import MySQLdb
import pytest
from click.testing import CliRunner

from mysql_words import version_number
from spirit_py.cli import main
from spirit_py.cli import migrate as command
from spirit_py.cli.changes import migration_config
from spirit_py.mysql.connect import connect
from spirit_py.plan import make_plan
from spirit_py.preflight.clauses import made_by_server, why_not_metadata_only
from spirit_py.preflight.preflight import prepare
from tests.kits.cases import case_arguments
from tests.kits.command import codes_told
from tests.oracle.case import load_all
from tests.oracle.crew import run_in_own_session
from tests.oracle.load import global_variables
from tests.oracle.scene import surroundings
from tests.oracle.zones import zones

if TYPE_CHECKING:
    from spirit_py.config import MigrationConfig
    from tests.fixtures.mysql import Database
    from tests.oracle.case import Case

#: What is tried for the next one only where the server refuses the first for its algorithm.
MODIFIERS = {"instant": "ALGORITHM=INSTANT", "inplace": "ALGORITHM=INPLACE, LOCK=NONE"}


@pytest.mark.slow
@pytest.mark.draws(6)
@pytest.mark.parametrize("case", load_all(), ids=lambda case: case.name)
def test_a_plan_says_what_the_server_and_a_migration_do(case: Case, db: Database) -> None:
    """The algorithm, the definition and the refusal are those of the change itself."""
    case = case.on(version_number(db.server.version()))
    with contextlib.ExitStack() as stack:
        if case.named_zones:
            stack.enter_context(zones(db))
        stack.enter_context(global_variables(db.execute, db.query, case.expect.server))
        stack.enter_context(surroundings(case, db))
        case = case.placed(db.name)
        run_in_own_session(db, case.setup)
        config = _config(case, db)
        plan = make_plan(config, sample=False)
        assert_refusal_is_foreseen(case, plan, db)
        if len(plan.tables) == 1:
            free = dataclasses.replace(config, no_shortcut=False)
            expected = make_plan(free, sample=False).tables[0]
            made, definition = changed_by_the_server(free, db)
            if made and expected.method.algorithm != "unknown":
                assert expected.method.algorithm == made, expected.method.why
            known = expected.definition
            if definition and known is not None and known.new and not known.unknown:
                assert known.new == definition


def _config(case: Case, db: Database) -> MigrationConfig:
    arguments = case_arguments(case, db)
    return migration_config(command.migrate.make_context("migrate", arguments).params)


def assert_refusal_is_foreseen(case: Case, plan: Any, db: Database) -> None:
    """A case that ends with exit code 2 is refused by both for the same, and no other one is."""
    causes = [note.cause for note in plan.refusals]
    if case.expect.exit_code == 0:
        assert not causes
    elif case.expect.exit_code == 2:
        words = ["migrate", *case_arguments(case, db)]
        refused = CliRunner(catch_exceptions=False).invoke(main, words)
        assert refused.exit_code == 2
        assert codes_told(refused.stderr)
        assert codes_told(refused.stderr) <= {note.code for note in plan.refusals}, causes


def sorted_lines(definition: str) -> list[str]:
    """Return the lines of a definition: the server sorts constraints in an order of its own."""
    return sorted(line.rstrip(",") for line in definition.splitlines())


def changed_by_the_server(config: MigrationConfig, db: Database) -> tuple[str, str]:
    """Change the table as a migration would in place; return how, and the definition it has."""
    with connect(config.connection, role="test") as session:
        (context,) = prepare(session, config)
        if context.found is None:
            return "", ""
        source, statement = context.source, context.statement
    table = f"`{source.schema}`.`{source.name.replace('`', '``')}`"
    # No modifier goes with a clause about partitions that the server makes itself.
    by_server = made_by_server([context]) is not None
    made = "inplace" if by_server else "copy"
    for algorithm, modifiers in MODIFIERS.items() if not by_server else ():
        if algorithm == "inplace" and why_not_metadata_only(source, statement):
            break
        try:
            _natively(db, config, f"ALTER TABLE {table} {modifiers}, {statement.clauses}")
        except MySQLdb.Error as error:
            if "ALGORITHM" not in str(error).upper() and "instant" not in str(error).lower():
                return "", ""
            continue
        made = algorithm
        break
    if by_server or made == "copy":
        with contextlib.suppress(MySQLdb.Error):
            _natively(db, config, f"ALTER TABLE {table} {statement.clauses}")
            return made, _shape(config, source)
        return made, ""
    return made, _shape(config, source)


def _natively(db: Database, config: MigrationConfig, sql: str) -> None:
    connection = db.connect()
    modes = config.modes
    with contextlib.closing(connection.cursor()) as cursor:
        if modes.sql_mode is not None:
            cursor.execute("SET SESSION sql_mode = %s", (modes.sql_mode,))
        cursor.execute(sql)


def _shape(config: MigrationConfig, source: Any) -> str:
    from spirit_py.mysql.tables.definition import read_shape

    with connect(config.connection, role="test") as session:
        return read_shape(session, source.schema, source.name)
