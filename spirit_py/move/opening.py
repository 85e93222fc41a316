"""Before a move writes anything: all servers are read, locked for other runs, and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spirit_py.batch.changes import left_out, matching, read_pattern, require_left_out
from spirit_py.checkpoint.decision import Afresh, Refuse, Resume
from spirit_py.checkpoint.examination import (
    find_record,
    members,
    runs_seen,
)
from spirit_py.checkpoint.record import CheckpointRecord
from spirit_py.checkpoint.table import CheckpointTable, checkpoint_tables
from spirit_py.classes import replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import MigrationFailure, Refusal, ServerFault, UnfinishedWork
from spirit_py.events.run import AlgorithmChosen
from spirit_py.migration.control.listener import begin_control
from spirit_py.migration.opening import describe, end_earlier_run, tell_afresh, tell_resumed
from spirit_py.migration.swap.same_tables import MOVED
from spirit_py.move.checks import check_servers
from spirit_py.move.decision import decide, finished, rows_copied, together
from spirit_py.move.remains import look, statement_of_move, told_sources
from spirit_py.move.run import Opened, forget_there
from spirit_py.move.shards import twice
from spirit_py.move.sides import bring_home
from spirit_py.mysql.endpoint import require_one_server
from spirit_py.mysql.facts import read_facts, require_mysql
from spirit_py.mysql.grants import read_grants, scope_of
from spirit_py.mysql.tables.identity import doubtful, looked_at
from spirit_py.preflight.check import Severity, refusal_of, refuse, warn
from spirit_py.preflight.checks.other_writers import require_still_here
from spirit_py.preflight.checks.privileges import privileges
from spirit_py.preflight.preflight import prepare
from spirit_py.sql import quote_table
from spirit_py.table.names import moving
from spirit_py.throttle.option_checks import require_throttlers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.config import MoveConfig
    from spirit_py.contracts import SqlSession
    from spirit_py.move.decision import Decision
    from spirit_py.move.run import MoveRun
    from spirit_py.mysql.facts import ServerFacts
    from spirit_py.mysql.session import Session
    from spirit_py.preflight.check import Finding, PreflightContext
    from spirit_py.table.names import Name

#: On the whole schema: a new table is made under a random name there. TRIGGER: to see triggers.
_ON_SCHEMA: Final = (
    *("SELECT", "INSERT", "DELETE", "CREATE", "DROP", "ALTER", "INDEX"),
    *("TRIGGER", "LOCK TABLES", "CREATE TEMPORARY TABLES"),
)
_GLOBAL: Final = ("PROCESS", "REPLICATION CLIENT")
#: The binary log of the target is read.
_TO_FOLLOW: Final = ("REPLICATION SLAVE",)


def tables_of(session: SqlSession, config: MoveConfig, *, late: bool = False) -> list[Name]:
    """Return the tables that a move is about: those that are there, and those it has moved.

    ``late``: there may be none any more.
    """
    schema = config.database
    begun = list(_begun(session))
    excluded, _ = left_out(session, config.exclude, schema)
    for pattern in (read_pattern(text, schema) for text in config.exclude):
        excluded |= {name for name in begun if pattern.fits(name)}
    found: set[Name] = set()
    for pattern in (read_pattern(text, schema) for text in config.patterns):
        names = {*matching(session, pattern), *(name for name in begun if pattern.fits(name))}
        names -= excluded
        if not (names or late):
            raise Refusal(
                f"the pattern {pattern.given} matches no table",
                hint="see SHOW SCHEMAS LIKE and SHOW TABLES LIKE; the account sees only tables on"
                " which it has privileges",
                error_code=ErrorCode.NO_SUCH_TABLE,
            )
        found |= names
    return sorted(found)


def excluded_nothing(sessions: Sequence[SqlSession], config: MoveConfig) -> list[Finding]:
    """Return what is said of patterns of ``--exclude`` that fit no table of any source.

    Refusal for a name in a new move: it may be misspelt, and the table be taken away.
    """
    begun = {name for session in sessions for name in _begun(session)} if config.exclude else set()
    nothing = [
        found
        for found in (read_pattern(text, config.database) for text in config.exclude)
        if not any(map(found.fits, begun))
        and all(left_out(one, (found.given,), config.database)[1] for one in sessions)
    ]
    chosen = [read_pattern(text, config.database) for text in config.patterns]
    if config.excludes_surely and not any(one.fits(name) for one in chosen for name in begun):
        require_left_out(nothing)
    return [warn(f"--exclude {one.given} matches no table") for one in nothing]


def _begun(session: SqlSession) -> Iterator[Name]:
    """Yield the tables of moves that are not done, whatever name they have by now.

    A record is believed about tables whose own checkpoints lead to it (R26).
    """

    def tables(name: Name) -> tuple[Name, ...]:
        stem = name[1].removeprefix("_").removesuffix("_chkpnt")
        record = find_record(session, (name[0], stem)).record
        of_a_move = record is not None and record.moves
        return members(session, record) if record is not None and of_a_move else ()

    marks = checkpoint_tables(session)
    with doubtful(session):
        found = list(looked_at(marks, tables, lambda _name, _error: ()))
    for names in found:
        yield from names


def read_servers(
    run: MoveRun, sessions: Sequence[Session], theirs: Sequence[Session]
) -> tuple[list[ServerFacts], list[tuple[PreflightContext, ...]]]:
    """Return what is known of all servers, and of each source's tables; write nothing.

    ``sessions`` are of the sources, ``theirs`` of the targets. Raises Refusal.
    """
    config = run.config
    servers = zip((*sessions, *theirs), (*config.origins, *config.targets), strict=True)
    for session, options in servers:
        require_one_server(session, options)
    facts = [read_facts(session) for session in (*sessions, *theirs)]
    for one in facts:
        require_mysql(one)
    # Its locks would be taken twice.
    if found_twice := list(twice(config, facts)):
        raise refusal_of(found_twice, "the move")
    tables = _tables_of_all(sessions, config)
    alter = config.alter or "FORCE"
    text = "; ".join(f"ALTER TABLE {quote_table(*name)} {alter}" for name in tables)
    asked = replace(config, statement=text, alter="", table="")
    return facts, [prepare(session, asked) for session in sessions]


def opened_by(
    run: MoveRun, sessions: Sequence[Session], found: Sequence[tuple[PreflightContext, ...]]
) -> list[Opened]:
    """Return each source with the tables as its session has them."""
    return [
        Opened(run=front, session=session, contexts=_on(front, contexts))
        for front, session, contexts in zip(run.fronts(), sessions, found, strict=True)
    ]


def open_move(
    run: MoveRun, sessions: Sequence[Session], theirs: Sequence[Session]
) -> tuple[list[Opened], Decision]:
    """Return each source, and what is done with the tables of an earlier run.

    ``sessions`` are of the sources, ``theirs`` of the targets. The tables are locked for other runs
    on all servers. Raises Refusal with all findings.
    """
    facts, found = read_servers(run, sessions, theirs)
    run.warn_of(tuple(excluded_nothing(sessions, run.config)))
    home, tables = sessions[0], [(one.schema, one.table) for one in found[0]]
    describe(run, found[0])
    require_rights(run, opened_by(run, sessions, found), theirs)
    run.label(home, found[0][0].facts, tables, (*sessions[1:], *theirs))
    run.lock_tables_from_other_runs(tables)
    opened = opened_by(run, sessions, found)
    # Before anything is read: a server may still execute a killed run's RENAME.
    tokens = set().union(*(runs_seen(session, tables) for session in sessions))
    for session in (*sessions, *theirs):
        end_earlier_run(run, session, tables, tokens)
    opened, decision = decided(run, opened, theirs)
    if isinstance(decision, Refuse):
        if all(one.found.record is not None and finished(one.found) for one in opened) and all(
            one.found.note is None or one.found.note.target == one.found.target_uuid
            for one in opened
        ):
            # Where an earlier run could not; not on a replica of that target.
            forget_there(run, tables)
        raise Refusal(decision.reason, hint=decision.hint, error_code=ErrorCode.CANNOT_RESUME)
    require_no_other(run.config, opened)
    _tell(run, decision, sum(rows_copied(one.found) for one in opened))
    if isinstance(decision, Resume):
        # Operators are heard by what is written, before the checks, which may take long.
        for one in () if decision.cleanup else opened:
            _require_still_here(one, tables)
        begin_control(run, home, decision.record, run.fronts())
    if not (isinstance(decision, Resume) and decision.cleanup):
        check_servers(run, opened, theirs, facts[len(sessions) :])
        require_throttlers(run.config, home)
    run.stop.check()
    return opened, decision


def _require_still_here(one: Opened, tables: Sequence[Name]) -> None:
    """Refuse a source that became a replica since the move began: nothing is written yet."""
    try:
        config = one.run.config
        require_still_here(one.session, config, tables, config.connection.address)
    except ServerFault:
        raise
    except MigrationFailure as gone:
        raise Refusal(gone.message, hint=gone.hint, error_code=gone.error_code) from gone


def require_rights(run: MoveRun, opened: Sequence[Opened], theirs: Sequence[SqlSession]) -> None:
    """Raise a Refusal with all that the accounts of all servers lack, and the GRANTs for it.

    Asked before all else: without them the first looks at an earlier run fail.
    """
    lacking: list[Finding] = []
    for one in opened:
        where = f"on {one.run.config.shard}: " if one.run.config.shard else ""
        for finding in (each for context in one.contexts for each in privileges(context)):
            if finding.severity is Severity.REFUSAL:
                cause, code = f"{where}{finding.cause}", ErrorCode.MISSING_PRIVILEGES
                lacking.append(replace(finding, cause=cause, code=code))
    schemas = sorted({context.schema for context in opened[0].contexts})
    for way, there in zip(run.backs(), theirs, strict=True):
        name = way.config.shard if way.config.shards else ""
        where = f"the target {name}".rstrip()
        lacking += _on_target(there, schemas, where, follows=way.config.keep_old_current)
    if lacking:
        raise refusal_of(list(dict.fromkeys(lacking)), "the move")


def _on_target(
    there: SqlSession, schemas: Sequence[str], where: str, *, follows: object
) -> Iterator[Finding]:
    grants = read_grants(there)
    asked = [(schema, grants.missing(_ON_SCHEMA, schema)) for schema in schemas]
    asked.append(("", grants.missing((*_GLOBAL, *(_TO_FOLLOW if follows else ())))))
    missing = [(schema, found) for schema, found in asked if found]
    if missing:
        named = "; ".join(f"{', '.join(found)} on {scope_of(schema)}" for schema, found in missing)
        yield refuse(
            f"account {grants.account} lacks {named} of {where}",
            " ".join(grants.grant(found, schema) for schema, found in missing) + grants.or_role,
            code=ErrorCode.MISSING_PRIVILEGES,
        )


def require_no_other(config: MoveConfig, opened: Sequence[Opened]) -> None:
    """Refuse a rehearsal that would end an unfinished run."""
    if config.dry_run and any(one.found.record is not None for one in opened):
        raise Refusal(
            "an unfinished run of these tables would be ended by a rehearsal",
            hint="finish it with the command that it was begun with, or drop it with spirit-py"
            " cleanup, on both servers",
            error_code=ErrorCode.CANNOT_RESUME,
        )


def _on(front: MoveRun, contexts: tuple[PreflightContext, ...]) -> tuple[PreflightContext, ...]:
    """Return contexts whose configuration faces their source."""
    own = replace(contexts[0].config, connection=front.config.connection)
    return tuple(replace(one, config=own) for one in contexts)


def _tables_of_all(sessions: Sequence[SqlSession], config: MoveConfig) -> list[Name]:
    """Return the tables that a move is about; Refusal where sources have others."""
    # Where an earlier run was ending, the last sources may know nothing of it any more.
    names, *others = (
        tables_of(session, config, late=place > 0) for place, session in enumerate(sessions)
    )
    for shard, found in zip(config.sources[1:], others, strict=bool(config.sources)):
        # What another source lacks is refused with its other findings.
        if more := sorted({*found} - {*names}):
            wrong = ", ".join(".".join(name) for name in more)
            raise Refusal(
                f"the source {shard.name} has {wrong}, and {config.sources[0].name} has not",
                hint="name tables that all sources have",
                error_code=ErrorCode.NO_SUCH_TABLE,
            )
    return names


def decided(
    run: MoveRun, opened: Sequence[Opened], theirs: Sequence[Session], *, plans: bool = False
) -> tuple[list[Opened], Decision]:
    """Look at all servers, and decide about an earlier run; a half-made switch is taken back.

    Where it ``plans``, only the decision says so, and nothing is written.
    """
    tables = [(one.schema, one.table) for one in opened[0].contexts]
    of_sources = told_sources(run.config, [one.session for one in opened])

    def look_again() -> list[tuple[Opened, Decision]]:
        found = [look(o.session, theirs, o.run, tables) for o in opened]
        sent = any(one.note is not None and one.note.switched for one in found)
        known = [replace(one, switched=sent) for one in found]
        seen = [replace(o, found=one) for o, one in zip(opened, known, strict=True)]
        return [(one, _decision(one, of_sources)) for one in seen]

    looked = look_again()
    half = [one for one, decision in looked if isinstance(decision, Resume) and decision.cleanup]
    notes = [one.found.note for one, _ in looked if one.found.note is not None]
    made = any(note.away or note.switched for note in notes)
    others = [one for one, _ in looked if one not in half]
    here = bool(others and half) and all(_is_here(one, half[0].record) for one in others)
    if here and plans and not made:
        back = "tables that a switch has renamed on some sources get their names back, then: "
        return [one for one, _ in looked], next(
            replace(decision, reason=back + decision.reason)
            for one, decision in looked
            if one not in half
        )
    if here and not made and run.config.dry_run:
        return [one for one, _ in looked], Refuse(
            reason="a switch has renamed the tables of some sources, and a rehearsal leaves"
            " them so",
            hint="run the same command without --dry-run: it gives them their names back, and goes"
            " on; no RENAME by hand is needed",
        )
    if here and not made:
        opened = [_brought_home(one, tables) if one in half else one for one, _ in looked]
        looked = look_again()
    decisions = [_of_source(one, decision) for one, decision in looked]
    return [one for one, _ in looked], together([one.found for one, _ in looked], decisions)


def _of_source(one: Opened, decision: Decision) -> Decision:
    """Return a decision whose reason names the source that it is about, if there are several."""
    if not (one.run.config.shard and decision.reason):
        return decision
    return replace(decision, reason=f"on {one.run.config.shard}: {decision.reason}")


def _is_here(one: Opened, record: CheckpointRecord) -> bool:
    """Return whether a source's own record is of the same move, and its tables are the noted."""
    own = one.found.record
    same = isinstance(own, CheckpointRecord) and own.statement == record.statement
    return same and all(table.here for table in one.found.tables)


def _decision(one: Opened, of_sources: str) -> Decision:
    config = one.run.config
    return decide(
        one.found,
        statement=statement_of_move(one.found.target_uuid, of_sources, config, one.contexts),
        max_age=config.checkpoint_max_age,
        start_afresh=config.start_afresh,
        modes=config.modes,
        # A rehearsal switches nothing, and resumes nothing.
        choices=None if config.dry_run else config.swap_choices,
    )


def _brought_home(one: Opened, tables: Sequence[Name]) -> Opened:
    """Rename a source's tables back, where others' have kept their names.

    A run ended between the RENAMEs of two sources: all that the tables had is on the target.
    """
    home = CheckpointTable(*one.record.home)
    bring_home(
        one.run,
        [moving(name) for name in tables],
        MOVED,
        lambda place: home.write(one.session, replace(one.record, position=place)),
    )
    return replace(one, contexts=prepare(one.session, one.contexts[0].config))


def _tell(run: MoveRun, decision: Decision, rows: int) -> None:
    where = " and ".join(one.address for one in run.config.targets)
    if run.config.sources:
        where += f" from {' and '.join(one.address for one in run.config.origins)}"
    run.tell(AlgorithmChosen(algorithm="copy", reason=f"it moves to {where}"))
    if isinstance(decision, Resume):
        tell_resumed(run, decision, rows=rows)
    elif isinstance(decision, Afresh) and decision.reason:
        if decision.throws_away and not run.config.start_afresh:
            resume = f"to resume it: {decision.instead}; " if decision.instead else ""
            raise UnfinishedWork(
                f"what an unfinished run has copied would be dropped: {decision.reason}",
                hint=f"{resume}to drop it and begin with this one: --start-afresh; to drop it only:"
                " spirit-py cleanup, on all servers",
            )
        tell_afresh(run, decision)
