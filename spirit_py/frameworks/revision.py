"""Keep count of the statements of a framework's migration: each is made once, in order.

Neighbouring changes of one table become one ALTER where the server makes the same definition of an
empty table by it. From the first online statement on, each is a step
(:mod:`spirit_py.frameworks.steps`), so the same command resumes and passes over what is made.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from spirit_py import points
from spirit_py.classes import dataclass, field, replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import AnotherServer, Refusal, SpiritError
from spirit_py.frameworks import joining, steps
from spirit_py.frameworks.connecting import is_an_answer, says_made
from spirit_py.frameworks.online import Left, change, look_around, namings, prepared
from spirit_py.frameworks.steps import add_notes, refusal
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterator, Sequence

    from spirit_py.contracts import SqlSession
    from spirit_py.frameworks.online import FrameworkSession, OnlineChange, SessionFacts, Settle
    from spirit_py.table.names import Name

#: What only reads, or sets something of the session alone, may come between.
_READS: Final = ("SELECT", "SHOW", "SET", "DO", "EXPLAIN", "DESC")


@dataclass(kw_only=True)
class _Whole:
    """A migration that happens as a whole; ``rows`` are the framework's, before it."""

    rows: tuple[str, ...]
    changes: list[OnlineChange] = field(default_factory=list)
    versions: list[steps.VersionChange] = field(default_factory=list)
    open: bool = True


@dataclass(kw_only=True, eq=False)
class Revision:
    """The statements of the migration that runs on one connection of a framework.

    ``scope`` names what the migration that runs belongs to, such as Django's application; it is
    empty where that is not known. ``history`` returns what the framework has noted of a scope:
    other rows begin another migration.
    ``versions`` are schema and name of its table, no schema for the session's; ``finish`` is its
    command that only notes a migration. ``settle`` finishes that of a table whose process ended
    after the RENAME, and keeps its old table where it is told to. ``alone`` returns whether no
    migration runs, so that nothing will note what is made: no step of it is kept.
    """

    session: Callable[[], FrameworkSession]
    scope: Callable[[], str]
    history: Callable[[str], object]
    log: logging.Logger
    versions: tuple[str, str]
    finish: str
    settle: Settle
    alone: Callable[[], bool]

    def __post_init__(self) -> None:
        self._table = steps.StepTable(self.session, self.versions)
        self._key = ""
        self._steps: list[steps.RevisionStep] = []
        #: Of migrations of other scopes, which a later command resumes.
        self._others: list[steps.RevisionStep] = []
        self._done = 0
        self._answers = steps.Answers()
        self._waiting: list[OnlineChange] = []
        self._carrying_out = False
        self._whole: _Whole | None = None
        self._just_noted: set[tuple[str, ...]] = set()
        #: What the work on what waited has raised, which a revision may have caught.
        self.failed: BaseException | None = None

    @property
    def takes_all(self) -> bool:
        """Whether every change of a table is gathered, to happen with the others or not at all."""
        return self._whole is not None and self._whole.open

    @contextlib.contextmanager
    def as_a_whole(self) -> Iterator[None]:
        """Gather the changes made in it for :meth:`version`; Refusal after an earlier statement."""
        self.flush()
        self._look()
        if self._done:
            raise refusal(
                "a statement of this migration is made already, apart from the rest",
                hint="put all its statements into the block, or give them a migration of their own",
            )
        session = cast("SqlSession", self.session())
        self._whole = _Whole(rows=steps.version_rows(session, self._version_table()))
        try:
            yield
        except BaseException:
            self._whole = None
            raise
        self._whole.open = False
        if not self._whole.changes:
            self._whole = None

    def gather(self, statement: str, asked: OnlineChange | None) -> None:
        """Take a statement; Refusal for one that neither changes a table (``asked``) nor reads."""
        if asked is None:
            raise self._apart(statement)
        self.online(asked)

    def version(self, change: steps.VersionChange) -> bool:
        """Take what the framework would note; False where it is to do that itself."""
        if self._whole is None or self._whole.open:
            return False
        self._whole.versions.append(change)
        return True

    def again(self, question: object, ask: Callable[[], Any]) -> Any:
        """Return what ``ask`` answers, or what it did before the same statement in a run before."""
        if self._whole is not None:
            return ask()
        self._look()
        coming = self._steps[self._done : self._done + 1]
        return self._answers.again(question, [one for step in coming for one in step.answers], ask)

    def has_noted(self, row: tuple[str, ...]) -> bool:
        """Return, once, whether a swap has brought a row of the framework's table."""
        found = row in self._just_noted
        self._just_noted.discard(row)
        return found

    def finish_earlier(self) -> None:
        """Drop what a migration has left whose process ended after its RENAME; or SpiritError."""
        self._begin_anew()
        self._just_noted, self.failed = set(), None
        self._finish_earlier()

    def _finish_earlier(self) -> None:
        with self._hinting():
            # Before each command, also one that changes nothing: no more is asked.
            ((schema,),) = self.session().query("SELECT DATABASE()")
            self._table.read(str(schema or ""))
            if not self._table.exists or self._table.versions() is None:
                return
            try:
                if not self._table.hold():
                    raise self._table.held_by_another()
                steps.finish_versions(
                    self.session(), self._version_table(), self._table, self.settle
                )
            except SpiritError as error:
                # Such as one that waits for the time of an old table, perhaps for days.
                if error.error_code is not ErrorCode.ALREADY_RUNNING:
                    raise
                self.log.info("spirit-py: left to the process that works on it: %s", error)
            finally:
                self._table.release()

    def resumes(self, table: Name, statement: str) -> bool:
        """Return whether an earlier run has begun the statement online, alone or with others."""
        self._look()
        left = self._steps[self._done :]
        return bool(left) and joining.is_begun(self.session(), left, table, statement)

    def plainly(self, table: tuple[str, str], statement: str, execute: Callable[[], Any]) -> Any:
        """Execute, or return None if an earlier run has; Refusal where others changed it since."""
        self._end_whole()
        if self._whole is not None:
            raise self._apart(statement)
        self.flush()
        self._look()
        if self._passes(table, statement):
            self._end_alone()
            return None
        with self._hinting():
            session, after = self.session(), ""
            if self._table.exists:
                after = joining.form_expected(session, table, statement, look_around(session))
            self._begin(table, statement, after)
            try:
                result = execute()
            except Exception as error:
                if is_an_answer(error):
                    self._end_unmade()
                raise
        self._made(table)
        self._end_alone()
        return result

    def online(self, asked: OnlineChange) -> None:
        """Carry a statement out online, at the latest before the next :meth:`flush` returns."""
        self._end_whole()
        if self._whole is not None:
            if not self._whole.open:
                raise self._apart(asked.statement)
            self._whole.changes.append(asked)
            return
        if self._waiting and replace(self._waiting[0], statement=asked.statement) != asked:
            self.flush()
        self._waiting.append(asked)

    def _end_whole(self) -> None:
        """Carry out a migration that is to be noted: what comes now is of another one."""
        if self._whole is not None and not self._whole.open and self._whole.versions:
            self.flush()

    def flush(self, before: str = "") -> None:
        """Carry out what waits, ``before`` the next statement; on SpiritError a rerun resumes.

        What it has raised it raises again until :meth:`give_up`, where a migration runs.
        """
        if self._carrying_out:
            return
        if self.failed is not None:
            raise self.failed
        try:
            self._flush(before)
        except BaseException as failure:
            self.failed = None if self.alone() else failure
            raise

    def _flush(self, before: str) -> None:
        if self._whole is not None:
            with self._hinting():
                self._flush_whole(self._whole, before)
            return
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        self._carrying_out = True
        try:
            around = look_around(self.session())
            self._look()
            while waiting:
                together = self._together(around, waiting)
                self._carry_out(joining.joined(waiting[:together], around), together, around)
                del waiting[:together]
            self._end_alone()
        finally:
            self._carrying_out = False

    def give_up(self) -> None:
        """Forget what waits: the migration has failed before it; another try reads what is made."""
        self._waiting = []
        self._whole = self.failed = None
        self._begin_anew()
        self._table.release()

    def _begin_anew(self, key: str = "") -> None:
        self._key, self._steps, self._others, self._done = key, [], [], 0
        self._answers.take()

    def _flush_whole(self, whole: _Whole, before: str) -> None:
        if not whole.versions and before.lstrip(" (\t\r\n").upper().startswith(_READS):
            return
        self._whole = None
        if before and not whole.versions:
            raise self._apart(before)
        if not whole.versions:
            raise Refusal(
                "the framework did not record the migration, so none of it was executed",
                hint="run it with the framework's own command; a migration that is not"
                " recorded needs no block",
            )
        self._carrying_out = True
        try:
            self._carry_out_whole(whole)
        finally:
            self._carrying_out = False

    def _carry_out_whole(self, whole: _Whole) -> None:
        session = self.session()
        around = look_around(session)
        first = whole.changes[0]
        statements = joining.join_tables(whole.changes, around, partial(self._together, around))
        config = prepared(session, first.arguments, around, *statements)
        if config.keep_old_current:
            raise refusal(
                "keep_old_current swaps tables back, but not the framework's record",
                hint="leave it out, or run the migration without asking that it happens as a whole",
            )
        versions = self._version_table()
        tables = tuple(dict.fromkeys(one.table for one in whole.changes))
        along = steps.VersionSwap(versions, whole.versions, whole.rows, tables, home=around.schema)
        self.log.info("spirit-py: %d tables and %s change at one moment", len(tables), versions[1])
        try:
            self._have_alone()
            # Only a copy can wait for the others.
            config = replace(config, no_shortcut=True)
            change(session, config, self.log, handle_signals=first.handle_signals, along=along)
            # What was deleted may be noted again, by this very process.
            inserts = [one for one in whole.versions if one.sql.startswith("INSERT")]
            self._just_noted = {one.parameters[:2] for one in inserts}
            points.reach("revision.swapped")
            self._table.read(around.schema)
            steps.finish_versions(session, versions, self._table, lambda *_: None)
        finally:
            # What is left is another's, and its command may come while this connection lives.
            self._begin_anew()
            self._table.release()

    def _version_table(self) -> Name:
        return self.versions[0] or look_around(self.session()).schema, self.versions[1]

    def _apart(self, statement: str) -> Refusal:
        return refusal(
            f"{statement.strip()[:200]!r} cannot happen at the same moment as the swap of tables",
            hint="only changes of tables that exist go into the block; give it a migration of its"
            " own",
        )

    def noted(self) -> None:
        """Forget the steps where the framework has noted their migration by now."""
        at_work = self._carrying_out or self._whole is not None
        if self._table.exists and not at_work and self._table.hold():
            self._look()
            if not self._steps:
                self.end()

    def end(self) -> None:
        """Keep nobody from the steps: what is left is another's, whose command may come now."""
        if self._whole is None:
            self._begin_anew()
            self._table.release()

    def _look(self) -> None:
        key = self._key_of(self.scope())
        if key == self._key:
            return
        if not self._key:
            self._finish_earlier()
        self._begin_anew(key)
        if not self._table.exists:
            self._table.release()
            return
        try:
            noted = self._have_alone()
        except BaseException:
            # A revision may catch it, and go on to its next statement.
            self._begin_anew()
            raise
        self._steps = [one for one in noted if one.history == key]
        self._others = [one for one in noted if one.history != key and self._is_open(one.history)]
        if len(self._steps) + len(self._others) < len(noted):
            self._keep()
        self._drop_if_empty()

    def _key_of(self, scope: str) -> str:
        return f"{scope}:{steps.digest(self.history(scope))}"

    def _is_open(self, key: str) -> bool:
        """Return whether the framework has noted nothing of the scope since the key was made."""
        return self._key_of(key.rpartition(":")[0]) == key

    def _drop_if_empty(self) -> None:
        # What was noted of an exchange of the version table proves whose tables are left.
        if not self._steps and not self._others and self._table.versions() is None:
            self._table.drop()

    def _have_alone(self) -> list[steps.RevisionStep]:
        """Return the steps, which nobody else writes from now on; Refusal where another has."""
        there, session = self._table.exists, self.session()
        if self._table.hold():
            # What it has read so far may be older than what another has noted.
            session.commit()
            noted = self._table.read(look_around(session).schema)
            if self._table.exists == there and self._is_open(self._key):
                return noted
            self._table.release()
        raise self._table.held_by_another()

    def _passes(self, table: tuple[str, str], statement: str) -> bool:
        """Return whether an earlier run made the statement; Refusal if its table changed since."""
        wanted = ".".join(table), statement
        left = self._steps[self._done :]
        keys = [(one.table, one.statement) for one in left]
        if not self._leave(left[: keys.index(wanted) if wanted in keys else None]):
            return False
        step = self._steps[self._done]
        same = [one for one in self._steps[self._done :] if one.table == step.table]
        form = joining.form_now(self.session(), table)
        made = joining.count_made(same, form)
        if made < 0 and step.made and not (same[-1].made or same[-1].after):
            # No form shows whether it is what has changed the table.
            self._require_unmade(same[-1], table, form)
            made = len(same) - 1
        if made > 0:
            self.log.info("spirit-py: made by an earlier run, skipped: %s", statement)
            self._steps[self._done] = replace(step, made=True, after=step.after or form)
            self._done += 1
            self._answers.take()
            self._keep()
            return True
        if step.made:
            # Other rows are another migration's, or prove whose the framework's tables are.
            numbers = ", ".join(str(one.number) for one in self._steps)
            raise refusal(
                f"an earlier run of this migration has made {statement!r}, and {step.table} was"
                " changed since by another session, or by a statement of this migration that has"
                " no step, such as one of a cursor or RunPython",
                hint=f"see what the table lacks; to note the migration as done: {self.finish}; to"
                f" begin it anew: DELETE FROM {self._table.name} WHERE id IN ({numbers})",
            )
        self._require_unmade(step, table, form)
        return False

    def _is_last(self, table: Name) -> bool:
        """Return whether no later step of the table is made."""
        later = [step for step in self._steps[self._done :] if step.table == ".".join(table)]
        return steps.made_of(later, joining.form_now(self.session(), table)) <= 0

    def _require_unmade(self, step: steps.RevisionStep, table: Name, form: str) -> None:
        """Refuse what may be made, and would be harmful if it is made again."""
        schema, name = table
        record = schema, AuxiliaryNames.of(name).checkpoint
        around = look_around(self.session())
        # On a table that is gone it fails.
        changed = form != joining.ABSENT and not steps.same_form(form, step.before)
        then = joining.second_time(step.statement, around, changed=changed)
        # With a record the run itself resumes, or refuses.
        if then and not joining.definition_of(self.session(), record):
            raise refusal(
                f"an earlier run of this migration may have made {step.statement!r}: made again, it"
                f" would {then}",
                hint=f"see the table {step.table}; where it was not made: DELETE FROM"
                f" {self._table.name} WHERE id = {step.number}, and run the same command again;"
                f" where it was made, what follows it is left to you, and then {self.finish}",
            )

    def _leave(self, left: list[steps.RevisionStep]) -> bool:
        """Pass over steps that this run does not send; return whether there are more.

        Refusal where one has dropped what its table may need: what adds it again may lack, too.
        """
        for step in left:
            definition = joining.definition_named(self.session(), step.table) if step.lost else ""
            for line in joining.lines_lacking(step.lost, definition):
                raise refusal(
                    f"an earlier run of this migration has made {step.statement!r}, which this run"
                    f" does not send, so nothing may bring back what it dropped: {line}",
                    hint=f"DELETE FROM {self._table.name} WHERE id = {step.number}, and run the"
                    f" same command again; where {step.table} is to have it, and lacks it then:"
                    f" ALTER TABLE {step.table} ADD {line}",
                )
            if step.made:
                self.log.warning(
                    "spirit-py: an earlier run has made %r, which this run lacks: it is kept",
                    step.statement,
                )
        if self._done + len(left) < len(self._steps):
            self._done += len(left)
            return True
        del self._steps[self._done :]
        return False

    def _begin(self, table: Name, statement: str, after: str = "") -> None:
        del self._steps[self._done :]
        session = self.session()
        definition = joining.definition_of(session, table)
        step = steps.RevisionStep(
            history=self._key,
            number=max((one.number for one in (*self._others, *self._steps)), default=-1) + 1,
            table=".".join(table),
            statement=statement,
            before=joining.form_of(definition) if definition else joining.ABSENT,
            after=after,
            made=False,
            answers=self._answers.take(),
            lost=joining.lines_dropped(statement, look_around(session), definition),
        )
        self._steps.append(step)
        self._keep()

    def _made(self, table: tuple[str, str]) -> None:
        after = joining.form_now(self.session(), table)
        self._steps[-1] = replace(self._steps[-1], after=after, made=True)
        self._done += 1
        self._answers.take()
        self._keep()

    def _end_unmade(self) -> None:
        """Forget the step that was begun last: the server, or a check, has refused it.

        Where that fails, the refusal is still what is raised.
        """
        del self._steps[self._done :]
        try:
            self._keep()
            self._drop_if_empty()
        except Exception as error:
            self.log.warning("spirit-py: what was begun could not be forgotten: %s", error)

    def _end_alone(self) -> None:
        """Forget what is made where no migration runs: the next call of a program is another."""
        if self.alone():
            self._done = 0
            self._end_unmade()
            self._begin_anew()
            self._table.release()

    def _keep(self) -> None:
        if self._table.exists:
            self._table.write([*self._others, *self._steps])

    def _carry_out(self, one: OnlineChange, together: int, around: SessionFacts) -> None:
        if self._carried_out_before(one, around):
            return
        session = self.session()
        if together > 1:
            self.log.info("spirit-py: %d statements become one: %s", together, one.statement)
        with self._hinting():
            # What the framework has open would hold back the swap, and is committed by any ALTER.
            config = prepared(session, one.arguments, around, one.statement)
            self._have_alone()
            after = joining.form_expected(session, one.table, config.statement, around)
            self._begin(one.table, one.statement, after)
            self._table.write([*self._others, *self._steps])
            points.reach("revision.begun")
            try:
                change(session, config, self.log, handle_signals=one.handle_signals)
            except (Refusal, AnotherServer) as error:
                # A process that works on the table may have noted the very same.
                if error.error_code is not ErrorCode.ALREADY_RUNNING:
                    self._end_unmade()
                raise
            except Left as left:
                # Where that fails, the form shows it, or the next run refuses.
                with contextlib.suppress(Exception):
                    if left.made:
                        self._made(one.table)
                raise
        points.reach("revision.made")
        self._made(one.table)

    def _carried_out_before(self, one: OnlineChange, around: SessionFacts) -> bool:
        """Return whether an earlier run made the change, after finishing what that has left."""
        session = self.session()
        passed = self._passes(one.table, one.statement)
        if passed and not self._is_last(one.table):
            return True
        # One that was begun may be made, too: where no temporary table shows its form.
        if not passed and self._done >= len(self._steps):
            return False
        sent = steps.unfinished(session, one.table, around, namings(one.statement, around))
        if not sent:
            return passed
        with self._hinting():
            # The archive that failed is made, and the old table dropped or kept.
            config = prepared(session, one.arguments, around, one.statement)
            # Its own copy has changed the names of CHECK constraints again.
            config = replace(config, statement=sent)
            change(session, config, self.log, handle_signals=one.handle_signals)
        if not passed:
            self._made(one.table)
        return True

    def _together(self, around: SessionFacts, waiting: Sequence[OnlineChange]) -> int:
        """Return how many of the changes, from the first one on, become one ALTER."""
        if left := self._steps[self._done :]:
            known = {one.statement for one in left}
            for count in range(len(waiting), 0, -1):
                if joining.joined(waiting[:count], around).statement in known:
                    return count
        return joining.count_joinable(self.session(), waiting, around)

    @contextlib.contextmanager
    def _hinting(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if isinstance(error, SpiritError):
                add_notes(error)
            if says_made(error):
                error.add_note(
                    "if an earlier run of this migration, or somebody else, has made all of it:"
                    f" {self.finish} notes it as done"
                )
            raise
