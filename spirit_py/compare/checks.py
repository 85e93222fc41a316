"""The checks before two tables are compared or one is repaired, and of the servers meanwhile."""

from __future__ import annotations

import contextlib
from itertools import starmap
from typing import TYPE_CHECKING, Final

from spirit_py.attached.foreign_keys.catalogue import keys_around
from spirit_py.attached.triggers.catalogue import list_triggers
from spirit_py.checksum.query import ComparisonPlan
from spirit_py.classes import dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import NotComparable, Refusal, SchemaChanged, ServerFault, SpiritError
from spirit_py.mysql.connect import connect
from spirit_py.mysql.facts import ServerFacts, read_facts, read_only_by, require_mysql
from spirit_py.mysql.faults import (
    ACCESS_NEEDS_PRIVILEGE,
    access_denied,
    refuses_sessions,
    server_away,
)
from spirit_py.mysql.grants import Grants, read_grants, scope_of
from spirit_py.mysql.replication import NO_REPLICA_NOW, channels
from spirit_py.mysql.retry import waiting_for
from spirit_py.mysql.tables.definition import near_name, no_base_table, read_table, shape_of
from spirit_py.preflight.check import refusal_of, refuse
from spirit_py.throttle.throttler import own_session

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence

    from spirit_py.checksum.worker import Follower
    from spirit_py.compare.column_matching import Matching
    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.mysql.retry import RenewedSession
    from spirit_py.preflight.check import Finding
    from spirit_py.table.schema import TableSchema


@dataclass(frozen=True, kw_only=True)
class Side:
    """The ``source`` or the ``target`` with its server and the account's grants there."""

    what: str
    session: SqlSession
    facts: ServerFacts
    grants: Grants
    table: TableSchema


def open_side(what: str, session: SqlSession, schema: str, table: str) -> Side:
    """Read one side; raise a Refusal without a supported MySQL or such an InnoDB table."""
    facts = read_facts(session)
    require_mysql(facts)
    found = read_table(session, schema, table)
    if found is None:
        raise _missing(what, session, schema, table)
    if found.engine.lower() != "innodb":
        raise Refusal(
            f"the {what} {schema}.{table} has the engine {found.engine}: only tables with"
            " transactions can be read in a snapshot",
            hint="compare a copy of it in InnoDB",
            error_code=ErrorCode.TABLE_NOT_SUITABLE,
        )
    return Side(what=what, session=session, facts=facts, grants=read_grants(session), table=found)


def _missing(what: str, session: SqlSession, schema: str, table: str) -> Refusal:
    if other := no_base_table(session, schema, table):
        code = ErrorCode.TABLE_NOT_SUITABLE
        return Refusal(f"the {what} {other}", hint="name its base table", error_code=code)
    option = "--table and --database" if what == "source" else "the --target-... options"
    return Refusal(
        f"there is no table {schema}.{table} (the {what})",
        hint=f"{near_name(session, schema, table)}check {option}; other tables are hidden from an"
        " account",
        error_code=ErrorCode.NO_SUCH_TABLE,
    )


def follower(source: Side, target: Side) -> Follower:
    """Return which side replicates from the other with GTIDs, as far as the account may see it.

    One that is delayed on purpose is never where the other one is.
    """
    if not (source.facts.gtid and target.facts.gtid):
        return ""
    if source.facts.uuid in _sources(target):
        return "target"
    return "source" if target.facts.uuid in _sources(source) else ""


def standing(source: Side, target: Side) -> Iterator[str]:
    """Yield that one side replicates from the other, and why it does not go on, or is late."""
    for name, side, other in (("source", source, target), ("target", target, source)):
        with contextlib.suppress(ServerFault):
            for channel in channels(side.session):
                delayed = f"it is delayed by {channel.delay} s" if channel.delay else ""
                why = channel.trouble or delayed
                if why and channel.source_uuid == other.facts.uuid:
                    yield (
                        f"the {name} is a replica of the other server, and {why}: what it has not"
                        " applied counts as different"
                    )


def _sources(side: Side) -> set[str]:
    try:
        found = channels(side.session)
        return {each.source_uuid for each in found if not (each.trouble or each.delay)}
    except ServerFault:
        return set()


def require_comparable(source: Side, target: Side, matching: Matching, *, lock: bool) -> None:
    """Refuse what cannot be compared; all reasons together."""
    if source.facts.uuid == target.facts.uuid and source.table.quoted == target.table.quoted:
        raise NotComparable(
            f"{source.table.full_name} would be compared with itself",
            hint="name the other table with --target-table or --target-database, or the other"
            " server with --target-host; two servers are one here while they have one server_uuid,"
            " as after a restore with auto.cnf: remove that file from one of them, and restart it",
        )
    staged = ComparisonPlan(mapping=matching.mapping).staged
    findings = [*_lacking(source, "CREATE TEMPORARY TABLES")] if staged else []
    if staged:
        findings += _logs_rows(source, "values of these columns go through a temporary table, and")
    for side in (source, target):
        findings += _lacking(side, "SELECT", side.table.name)
        if lock:
            findings += _lacking(side, "LOCK TABLES", note="; or compare with --no-lock")
    if findings:
        raise refusal_of(list(dict.fromkeys(findings)), "the comparison")


def require_repairable(
    source: Side, target: Side, matching: Matching, *, two_servers: bool
) -> None:
    """Refuse a repair that could do harm, or could not succeed; all reasons together."""
    findings = [
        *_writable(target),
        *_repair_privileges(target),
        *_side_effects(target.session, target.table, target.grants),
        *_column_findings(matching, two_servers=two_servers),
    ]
    if matching.mapping.tightened:
        # Duplicates are looked for through one.
        findings += _lacking(source, "CREATE TEMPORARY TABLES")
        findings += _logs_rows(source, "duplicates are looked for through a temporary table, and")
    if two_servers:
        findings += one_group(source.facts, target.facts)
        findings += _replication(target, source, "rows that are repaired there make it diverge")
        findings += _replication(source, target, "what it has not applied would be undone there")
    if findings:
        raise refusal_of(list(dict.fromkeys(findings)), "the repair")


def one_group(source: ServerFacts, target: ServerFacts) -> Iterator[Finding]:
    """Refuse two members of one group, which apply each other's rows."""
    name = source.text("group_replication_group_name")
    if name and name.lower() == target.text("group_replication_group_name").lower():
        yield refuse(
            "both servers are members of one replication group: what one of them has not applied"
            " yet would be undone in all, or written twice",
            "let the group provision the member anew (clone plugin), or rebuild it",
        )


def _replication(side: Side, other: Side, harm: str) -> Iterator[Finding]:
    """Refuse a replica of the other server, also a stopped one, with GTIDs or without."""
    try:
        found = any(each.source_uuid == other.facts.uuid for each in channels(side.session))
    except ServerFault as fault:
        if not access_denied(fault):
            raise
        # Asked where performance_schema is off, too small, or hidden from the account.
        status = fault.code == ACCESS_NEEDS_PRIVILEGE
        need = ("REPLICATION CLIENT", "") if status else ("SELECT", "performance_schema")
        yield refuse(
            f"the account may not see whether the {side.what}'s server is a replica of the other:"
            f" {fault.text}",
            f"on that server: {side.grants.grant(need[:1], need[1])}",
        )
        return
    if found:
        yield refuse(
            f"the {side.what}'s server is a replica of the {other.what}'s: {harm}",
            "correct the replica through replication, or rebuild it; if it is a replica no more:"
            f" {NO_REPLICA_NOW}",
        )


def _logs_rows(side: Side, why: str) -> Iterator[Finding]:
    """Refuse a server whose binlog has statements, not rows."""
    if side.facts.is_on("log_bin") and side.facts.text("binlog_format").upper() == "STATEMENT":
        yield refuse(
            f"{why} binlog_format is STATEMENT on the {side.what}'s server",
            f"SET GLOBAL binlog_format = ROW on the {side.what}'s server",
            code=ErrorCode.SERVER_SETTINGS,
        )


def _writable(target: Side) -> Iterator[Finding]:
    yield from _logs_rows(target, "no row can be repaired in READ COMMITTED:")
    if name := read_only_by(target.facts):
        yield refuse(
            f"the target's server takes no writes ({name}=ON)",
            "leave --repair out, or name a server that takes writes",
        )


def _repair_privileges(target: Side) -> Iterator[Finding]:
    # Without TRIGGER the catalogue hides triggers, without PROCESS foreign keys of others.
    for privilege in ("INSERT", "DELETE", "TRIGGER"):
        yield from _lacking(target, privilege, target.table.name)
    yield from _lacking(target, "CREATE TEMPORARY TABLES")
    if not target.grants.has_global("PROCESS"):
        yield _grant(target, "PROCESS")


def require_same(session: SqlSession, table: TableSchema) -> None:
    """Raise SchemaChanged where a table has another definition by now."""
    found = read_table(session, table.schema, table.name)
    if found is None or shape_of(found) != shape_of(table):
        raise SchemaChanged(
            f"the definition of {table.full_name} changed while its rows were compared",
            hint="run the same command again",
        )


def require_still_repairable(target: ConnectionOptions, table: TableSchema) -> None:
    """Raise SchemaChanged where :func:`require_repairable` would refuse the table by now."""
    with connect(target, role="compare") as session:
        require_same(session, table)
        for finding in _side_effects(session, table):
            raise SchemaChanged(f"since the comparison began: {finding.cause}", hint=finding.remedy)


def _side_effects(
    session: SqlSession, table: TableSchema, grants: Grants | None = None
) -> Iterator[Finding]:
    """Refuse triggers and foreign keys; ``grants`` unless it is known that keys can be seen."""
    for trigger in list_triggers(session, table.schema, table.name):
        yield refuse(
            f"{trigger.label} on {table.full_name} would fire for every repaired row",
            "drop the trigger during the repair, or repair by hand",
        )
    if grants is None or grants.has_global("PROCESS"):
        for key in keys_around(session, table.schema, table.name):
            yield refuse(
                f"{key} is not checked while rows are repaired, and does not cascade: a row that is"
                " deleted or inserted could leave rows without a parent",
                "drop the foreign key during the repair, or repair by hand",
            )


def _column_findings(matching: Matching, *, two_servers: bool) -> Iterator[Finding]:
    mapping = matching.mapping
    paired = {pair.new.name.lower() for pair in mapping.pairs}
    reset = [
        each.name
        for each in mapping.target.columns
        if each.name.lower() not in paired and not each.generated
    ]
    if reset:
        yield refuse(
            f"a repaired row is replaced: it would lose the target's {', '.join(reset)},"
            " which the source has no value for, or --ignore-column leaves out",
            "repair by hand: the report names the rows",
        )
    generated = [pair.new.name for pair in mapping.pairs if pair.new.generated]
    if generated:
        yield refuse(
            f"generated columns of the target cannot be written: {', '.join(generated)}",
            f"leave them out: --ignore-column {generated[0]}",
        )
    converted = [pair.new.name for pair in mapping.pairs if pair.converted or pair.narrowed]
    if converted and two_servers:
        yield refuse(
            "rows are carried to another server only between equal types; the target has others"
            f" for {', '.join(converted)}",
            "repair by hand: the report names the rows",
        )


def _lacking(side: Side, privilege: str, table: str = "*", note: str = "") -> Iterator[Finding]:
    if not side.grants.has(privilege, side.table.schema, table):
        yield _grant(side, privilege, side.table.schema, note)


def _grant(side: Side, privilege: str, schema: str = "", note: str = "") -> Finding:
    return refuse(
        f"account {side.grants.account} lacks {privilege} on {scope_of(schema)}"
        f" (the {side.what}'s server)",
        side.grants.grant([privilege], schema) + note,
    )


_LOOK_SECONDS: Final = 1.0
#: Each look is a login: while the servers answer, the next ones come later, until this.
_LONGEST_LOOK_SECONDS: Final = 8.0


class Sight:
    """Looks at the servers while nothing is ``done``, as no feed would notice that one is away.

    ``done`` returns another value after any work, and None before its sessions are open. No session
    is kept: the account may be allowed no more than the work needs. :meth:`run` is a thread's body.
    """

    def __init__(self, servers: Sequence[ConnectionOptions], done: Callable[[], object]) -> None:
        self._asked = [(one, own_session(one, "sight")) for one in servers]
        self._done = done
        #: The server that did not answer when it was asked last; empty for none.
        self.trouble = ""

    def run(self, stopping: threading.Event) -> None:
        """Look until the event is set; every second at first, and while a server is away."""
        before, pause = None, _LOOK_SECONDS
        try:
            while not stopping.wait(pause):
                before, seen = self._done(), before
                asked = self._asked if before is not None and before == seen else []
                self.trouble = next(filter(None, starmap(_trouble, asked)), "")
                answered = asked and not self.trouble
                pause = min(2 * pause, _LONGEST_LOOK_SECONDS) if answered else _LOOK_SECONDS
        finally:
            self.trouble = ""


def _trouble(options: ConnectionOptions, asked: RenewedSession) -> str:
    try:
        asked.ask(lambda session: session.query("SELECT 1"))
    except SpiritError as fault:
        # One that takes no more sessions answers.
        full = isinstance(fault, ServerFault) and refuses_sessions(fault)
        if server_away(fault) and not full:
            return waiting_for(options, fault)
    finally:
        asked.close()
    return ""
