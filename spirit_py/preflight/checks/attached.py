"""Triggers, and foreign keys of the table and to it: what may prevent that they are kept."""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING, Final

from spirit_py.attached.foreign_keys import added, rules
from spirit_py.attached.foreign_keys.catalogue import keys_around, keys_of
from spirit_py.attached.implied_locks import views_over
from spirit_py.attached.triggers.catalogue import (
    RECREATE,
    list_triggers,
    older_collation,
    read_triggers,
    schema_collation,
)
from spirit_py.attached.triggers.model import changed_by, mentions
from spirit_py.checkpoint.earlier_run import ReverseState
from spirit_py.checkpoint.examination import require_finished
from spirit_py.checkpoint.proofs import reverse_left
from spirit_py.chunk.chunk import KeyRange
from spirit_py.errors import ServerFault
from spirit_py.mysql.capabilities import Capability
from spirit_py.mysql.endpoint import Service, how_to_set, service_of
from spirit_py.mysql.faults import STATEMENT_TIMED_OUT
from spirit_py.mysql.grants import scope_of
from spirit_py.mysql.tables.definition import read_table
from spirit_py.preflight.check import Findings, PreflightContext, refuse, warn
from spirit_py.preflight.checks.partitions import made_by_no_copy
from spirit_py.preflight.checks.privileges import missing_for_keys, refuse_all
from spirit_py.preflight.clauses import made_by_server
from spirit_py.sql import identifier_list, quote_identifier
from spirit_py.statement import ClauseKind
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from spirit_py.attached.foreign_keys.model import ForeignKey
    from spirit_py.attached.triggers.model import Trigger
    from spirit_py.contracts import SqlSession
    from spirit_py.table.names import Name
    from spirit_py.table.schema import TableSchema


def _unlike_columns(child: TableSchema, parent: TableSchema, key: ForeignKey) -> Findings:
    for one, other in zip(key.columns, key.parent_columns, strict=True):
        if not parent.has_column(other):
            yield refuse(f"{parent.full_name} has no column {other}", "check the name")
        elif not added.compared_alike(column := child.column(one), there := parent.column(other)):
            yield refuse(
                f"column {one} is {column.column_type}, and {other} of {parent.full_name} is"
                f" {there.column_type}: the server may not find equal values equal",
                f"make both of one type first: MODIFY {quote_identifier(one)} ...",
            )


#: Seconds of a first look for rows without a parent.
_ORPHAN_SECONDS: Final = 5.0


def new_foreign_key(context: PreflightContext) -> Findings:
    """Refuse a foreign key that the server cannot add in place, or that a row does not meet."""
    clause = made_by_server([context])
    if clause is None or clause.kind is not ClauseKind.ADD_FOREIGN_KEY:
        return
    key = added.wanted_key(clause, (context.schema, context.table))
    there = added.existing_key(context.session, key)
    if there is not None and not added.is_same_key(there, key, clause):
        yield refuse(f"there is another {there}", "give the new one another name")
        return
    if unknown := [name for name in key.columns if not context.source.has_column(name)]:
        yield refuse(
            f"{context.source.full_name} has no column {', '.join(unknown)}", "check the name"
        )
        return
    if copied := list(made_by_no_copy(context, clause)):
        yield from copied
        return
    parent = read_table(context.session, *key.parent)
    if parent is None:
        yield refuse(f"there is no table {'.'.join(key.parent)}", "check the name")
        return
    if unlike := list(_unlike_columns(context.source, parent, key)):
        yield from unlike
        return
    index, columns = added.index_for(context.source, key.columns), identifier_list(key.columns)
    if index is None:
        yield refuse(
            f"no index of {context.source.full_name} begins with ({columns}): the server would"
            " build one while it adds the key",
            f"run ADD INDEX ({columns}) first, then this command",
        )
        return
    if there is not None:
        # The run looks at its rows.
        return
    search = added.OrphanSearch(context.session.query, key, context.source, index)
    try:
        found = search.first(KeyRange(), seconds=_ORPHAN_SECONDS)
    except ServerFault as error:
        if error.code != STATEMENT_TIMED_OUT:
            raise
        # The run looks at all rows once the key is there.
        return
    if found:
        yield refuse(
            f"a row of {context.source.full_name} has no parent in {'.'.join(key.parent)}, with"
            f" ({', '.join(key.columns)}) = ({', '.join(found)})",
            "give it a parent, change it, or delete it; then run the same command again",
        )


def triggers(context: PreflightContext) -> Findings:
    """Refuse a body that names a column that the ALTER takes away; or any trigger, as asked."""
    if context.config.triggers == "refuse":
        for listed in list_triggers(context.session, context.schema, context.table):
            yield refuse(
                f"{listed.label} is on table {context.table}, and --triggers refuse was given",
                "leave the option out: triggers are kept",
            )
        return
    changed = changed_by(context.statement)
    if not changed:
        return
    for trigger in read_triggers(context.session, context.schema, context.table):
        for mention in mentions(trigger, changed):
            yield refuse(str(mention), f"keep the column's name, or {RECREATE}")


#: Create objects with the name of another account; SET_ANY_DEFINER since 8.2.
_ANY_DEFINER = ("SET_ANY_DEFINER", "SET_USER_ID", "SUPER")
_TRUST = "log_bin_trust_function_creators"


def triggers_kept(context: PreflightContext) -> Findings:
    """Refuse triggers that cannot be created again as they are, where the table is copied."""
    names = context.names
    also = (names.new, names.old, names.undone)
    found = read_triggers(context.session, context.schema, context.table, also=also)
    if not found:
        return
    yield from _privileges(context, found)
    now = schema_collation(context.session, context.schema)
    for one in found:
        if now and one.database_collation != now:
            yield refuse(*older_collation(one, now))


def _privileges(context: PreflightContext, found: tuple[Trigger, ...]) -> Findings:
    grants = context.grants
    if (
        context.facts.is_on("log_bin")
        and not context.facts.is_on(_TRUST)
        and not grants.has_global("SUPER")
    ):
        service = service_of(context.session, context.facts)
        instead = "" if service is not Service.NONE else f", or {grants.grant(['SUPER'])}"
        yield refuse(
            f"account {grants.account} may not create triggers while the binlog is on"
            f" ({_TRUST} is off; error 1419)",
            how_to_set(service, _TRUST, "1") + instead,
        )
    others = [one for one in found if f"{one.user}@{one.host}" != grants.account]
    if others and not any(grants.has_global(one) for one in _ANY_DEFINER):
        privilege = _ANY_DEFINER[not Capability.ANY_DEFINER.of(context.facts.version)]
        for one in others:
            yield refuse(
                f"{one.label} has the definer {one.user}@{one.host}: account {grants.account}"
                f" lacks {privilege} on {scope_of('')} to create it again with that definer",
                grants.grant([privilege]),
            )


def foreign_keys(context: PreflightContext) -> Findings:
    """Refuse what a native ALTER refuses; without PROCESS some children are unknown."""
    session, schema, table = context.session, context.schema, context.table
    own = keys_of(session, schema, table)
    yield from starmap(refuse, rules.dropped_in_vain(context.statement, context.source, own))
    if context.grants.has_global("PROCESS"):
        for key in keys_around(session, schema, table):
            yield from starmap(refuse, rules.dropped_column(key, context.altered))


def foreign_key_actions(context: PreflightContext) -> Findings:
    """Refuse what does no harm where nothing is copied; warn of many others, and of cascades."""
    table = (context.schema, context.table)
    keys = keys_around(context.session, *table)
    kept = bool(context.config.keep_old_current or context.config.drop_old_after)
    altered = context.altered
    for key in keys:
        yield from starmap(refuse, rules.unseen_changes(key, altered, context.facts))
        yield from starmap(refuse, rules.name_too_long(key, altered, kept=kept))
    # Their cascades may be logged although rolled back (measured on 9.7.4).
    cascading = [str(key) for key in keys if key.child in altered and key.changes_rows]
    if cascading and not rules.cascades_unseen(context.facts):
        yield warn(
            f"if a cascade of {', '.join(cascading)}"
            " ends in a deadlock while its statement runs with autocommit, the server reports no"
            " error and logs changes that it has rolled back: this migration compares such rows"
            " before the swap, replicas keep the changes",
            "change keys of the parent and delete from it within BEGIN and COMMIT, and look at the"
            " number of rows (docs/triggers-and-foreign-keys.md)",
        )
    children = {key.child for key in keys} - {table}
    if len(children) > rules.MANY_CHILDREN:
        yield warn(
            f"{len(children)} tables refer to {'.'.join(table)}: the swap changes the definition of"
            " each while it holds the locks of all, some milliseconds a table",
            "swap at a quiet time; --dry-run measures the lock",
        )
    views = views_over(context.session, [table])
    if len(views) > rules.MANY_VIEWS:
        yield warn(
            f"{len(views)} views read {'.'.join(table)}: the server opens each of them, twice,"
            " while the swap holds its lock, some milliseconds a view",
            "swap at a quiet time",
        )


def relatives(context: PreflightContext) -> Findings:
    """Refuse to end an unfinished migration of a child or a parent; warn of one's way back."""
    keys = keys_around(context.session, context.schema, context.table)
    others = {other: key for key in keys for other in (key.child, key.parent)}
    for other, key in others.items():
        if other in context.altered:
            continue
        require_finished(context.session, other, f"the swap moves {key}")
        if not context.grants.has("SELECT", other[0], AuxiliaryNames.of(other[1]).checkpoint):
            yield warn(
                f"the swap moves {key}, and would end an unfinished migration of"
                f" {'.'.join(other)}, which the account cannot see",
                "see spirit-py status by another account, or grant this one SELECT on that schema",
            )
        elif risk := ends_way_back(context.session, other, key):
            yield warn(f"the swap {risk}", "if that change may have to be reverted, do so before")


def ends_way_back(session: SqlSession, other: Name, key: ForeignKey) -> str:
    """Return how a swap that moves a key may end another table's way back; empty without one."""
    kept = reverse_left(session, [other])
    if kept is None or kept.state not in {ReverseState.KEPT, ReverseState.NOTED}:
        return ""
    name = ".".join(other)
    return f"moves {key}, and may end the way back of {name}, whose old table is kept"


def foreign_key_privileges(context: PreflightContext) -> Findings:
    """Refuse an account that may not carry the foreign keys along."""
    if any(privileges for _, privileges in missing_for_keys(context)):
        yield refuse_all(context)
