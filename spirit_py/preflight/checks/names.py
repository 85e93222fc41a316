"""Names: auxiliary tables of others are never touched; CHECK constraints are unique in a schema."""

from __future__ import annotations

from dataclasses import astuple
from typing import Final

from spirit_py.checkpoint.proofs import read_proofs
from spirit_py.checkpoint.queue import RequestQueue
from spirit_py.checkpoint.record import Proofs
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.classes import replace
from spirit_py.mysql.tables.definition import existing_tables
from spirit_py.mysql.tables.identity import is_one_of
from spirit_py.mysql.tables.new_table import OWN_CHECKS, names_of_checks
from spirit_py.preflight.check import Finding, Findings, PreflightContext, refuse, warn
from spirit_py.table.names import MAX_IDENTIFIER, building_name

_ON_REPLICA: Final = (
    "see on the primary whether replication has brought it here; then it goes only by what is done"
    " there: dropped here, replication stops at its next change"
)

_CHECKS_OF_OTHERS: Final = """
SELECT CONSTRAINT_NAME, TABLE_NAME FROM information_schema.TABLE_CONSTRAINTS
WHERE CONSTRAINT_TYPE = 'CHECK' AND CONSTRAINT_SCHEMA = %s AND TABLE_NAME NOT IN (%s, %s)
ORDER BY 1"""


def leftovers(context: PreflightContext) -> Findings:
    """Refuse when a name is taken by a table that is not this program's own."""
    if not context.config.connection.unlogged:
        yield from _leftovers(context)
        return
    for found in _leftovers(context):
        yield replace(found, remedy=_ON_REPLICA) if found.remedy else found


def _leftovers(context: PreflightContext) -> Findings:
    names = context.names
    existing = existing_tables(context.session, context.schema, astuple(names))
    reverts = context.config.keep_old_current or context.config.drop_old_after
    if reverts and names.undone in existing:
        yield refuse(
            f"table {names.undone} exists: a revert needs the name",
            f"see what it holds; drop or rename {names.undone} if it is what an earlier revert"
            " left",
        )
    taken = existing - {names.undone, names.moved}
    queue = RequestQueue(context.schema, context.table)
    if names.requests in taken and queue.is_ours(context.session):
        taken.remove(names.requests)
    if names.sentinel in taken:
        taken.remove(names.sentinel)
        yield warn(f"table {names.sentinel} exists: the swap waits until it is dropped")
    ours = names.checkpoint in taken and is_ours(context)
    proofs = read_proofs(context.session, context.schema, context.table) if ours else Proofs()
    for name in sorted(taken):
        if name == names.old:
            yield refuse(
                f"table {name} exists: the swap needs the name",
                "see what it holds: after a swap it is the only copy of the rows from before;"
                f" DROP TABLE {name} when it is not needed",
            )
        elif name == names.requests:
            yield _of_others(name, "is not a request table of this program")
        elif ours and name == names.new:
            if not is_one_of(context.session, context.schema, name, proofs.new):
                yield _of_others(name, "is not the one that an earlier run of this program made")
        elif not ours:
            yield _of_others(name, "no checkpoint shows that this program made it")


def _of_others(name: str, why: str) -> Finding:
    cause = f"table {name} exists, and {why}"
    return refuse(cause, f"see who created it; drop or rename {name}")


def is_ours(context: PreflightContext) -> bool:
    """Return whether this table's checkpoint table is this program's, by its comment."""
    return CheckpointTable(context.schema, context.table).is_ours(context.session)


def check_constraints(context: PreflightContext) -> Findings:
    """Warn of names that do not come back, refuse those that get too long or are another's."""
    new, old = context.names.new, context.names.old
    # Longer than both: the name that the new table is built under.
    built = building_name(context.table, "0" * 6)
    longest = max(map(len, (new, old, built)))
    mode = context.facts.sql_mode
    copies = names_of_checks(context.session, context.source, context.statement, sql_mode=mode)
    for name, copy in copies.items():
        if not copy.startswith(f"{new}_chk_"):
            yield warn(
                f"CHECK constraint {name} will be called {copy}: its name is taken while"
                " the old table exists"
            )
        elif longest + len(name) - len(context.table) > MAX_IDENTIFIER:
            yield refuse(
                f"CHECK constraint {name} would get a name of more than {MAX_IDENTIFIER}"
                " characters when its table is copied and renamed",
                "drop it and add it again under a shorter name",
            )
    if not copies:
        return
    # LIKE numbers all of its constraints, whatever names they had.
    wanted = {f"{new}_chk_{number}".lower() for number in range(1, len(copies) + 1)}
    renamed = (name for name in copies if name.startswith(f"{context.table}_chk_"))
    for end in (name[len(context.table) :].lower() for name in renamed):
        wanted |= {new.lower() + end, old.lower() + end}
    for name, table in context.session.query(_CHECKS_OF_OTHERS, (context.schema, new, old)):
        if str(name).lower() in wanted:
            yield refuse(
                f"CHECK constraint {name} of table {table} has a name that one of"
                f" {context.table} gets when its table is copied or renamed",
                "drop it and add it again under another name",
            )


def new_check_names(context: PreflightContext) -> Findings:
    """Refuse a name that fails at the swap: the new table's own name is shorter."""
    new = context.names.new
    for (found,) in context.session.query(OWN_CHECKS, (context.schema, new)):
        if not str(found).startswith(f"{new}_chk_"):
            continue
        name = context.table + str(found)[len(new) :]
        if len(name) > MAX_IDENTIFIER:
            yield refuse(
                f"a CHECK constraint would be called {name}, which has more than {MAX_IDENTIFIER}"
                " characters (error 1059)",
                "name it in the ALTER: ADD CONSTRAINT name CHECK (...)",
            )
