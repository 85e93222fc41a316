"""The warnings and refusals of a plan: all that is found, each with its remedy."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass, field, replace
from spirit_py.codes import ErrorCode
from spirit_py.errors import ServerFault, SpiritError
from spirit_py.mysql.faults import LOCK_WAIT_TIMEOUT, access_denied, connection_lost
from spirit_py.plan.earlier_run import goes_on
from spirit_py.plan.model import Note
from spirit_py.preflight.check import Severity, TooLong
from spirit_py.preflight.preflight import require_free_relatives
from spirit_py.preflight.registry import CheckScope, findings_of, names_missing
from spirit_py.spark.choice import engine_of
from spirit_py.spark.engine import SparkEngine
from spirit_py.spark.settings import unprotected
from spirit_py.table.names import is_local
from spirit_py.throttle.option_checks import require_throttlers, unwatched

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spirit_py.checkpoint.decision import Decision
    from spirit_py.config import MigrationConfig
    from spirit_py.mysql.session import Session
    from spirit_py.preflight.check import Finding, PreflightContext
    from spirit_py.threads import StopSwitch

_CHECK_SECONDS: Final = 10.0

_NO_KEY: Final = ErrorCode.NO_USABLE_KEY


@dataclass(kw_only=True)
class Remarks:
    """What was found, of all tables; ``denied`` are the refusals of checks that may not look."""

    warnings: list[Note] = field(default_factory=list)
    refusals: list[Note] = field(default_factory=list)
    denied: list[Note] = field(default_factory=list)
    named: bool = False

    def refused(self) -> tuple[Note, ...]:
        """Return the refusals, each once; those of denied looks only where no GRANTs are named.

        The mapping of a table that has no key fails after the check of its keys, for its reason.
        """
        no_key = {one.table for one in self.refusals if one.check and one.code == _NO_KEY}
        found = [n for n in self.refusals if n.check or n.code != _NO_KEY or n.table not in no_key]
        return tuple(dict.fromkeys([*found, *([] if self.named else self.denied)]))

    def add(self, findings: Sequence[Finding], table: str = "") -> None:
        """Note the findings of checks."""
        for one in findings:
            if one.locked:
                self.warnings.append(_locked(table))
                continue
            note = Note(
                cause=one.cause,
                remedy=one.remedy,
                table=table,
                check=one.check,
                code=one.code or "",
                details=one.details,
            )
            self.named = self.named or names_missing(one)
            if one.denied:
                self.denied.append(note)
            elif one.severity is Severity.REFUSAL:
                self.refusals.append(note)
            else:
                self.warnings.append(note)

    @contextlib.contextmanager
    def refusing(self, table: str = "") -> Iterator[None]:
        """Note a refusal of the block and go on, unless the server is lost; a lock is a warning."""
        try:
            yield
        except SpiritError as error:
            if isinstance(error, ServerFault) and connection_lost(error):
                raise
            if isinstance(error, ServerFault) and error.code == LOCK_WAIT_TIMEOUT:
                self.warnings.append(_locked(table))
                return
            note = self.of_error(error, table)
            (self.denied if access_denied(error) else self.refusals).append(note)

    @staticmethod
    def of_error(error: SpiritError, table: str = "") -> Note:
        """Return the note of an error."""
        remedy = error.hint
        if not remedy and access_denied(error):
            remedy = "grant the account the privileges that the README lists"
        return Note(
            cause=error.message,
            remedy=remedy,
            table=table,
            code=error.error_code,
            details=error.details,
        )


def _locked(table: str) -> Note:
    return Note(
        cause=f"{table or 'a table'} is locked by another session: its rows were not checked,"
        " so that duplicates or values that do not fit may be found only later",
        remedy="run it again once the lock is released; performance_schema.metadata_locks shows who"
        " holds it",
        table=table,
        check="locked",
    )


def timed(
    session: Session, contexts: tuple[PreflightContext, ...], stop: StopSwitch
) -> tuple[PreflightContext, ...]:
    """Return the contexts with a limit for checks that read the whole table."""
    until = time.monotonic() + _CHECK_SECONDS
    now = session.query("SELECT DATE_FORMAT(UTC_TIMESTAMP(6), '%Y-%m-%dT%H:%i:%s.%f')")[0][0]

    def check() -> None:
        stop.check()
        if time.monotonic() > until:
            raise TooLong(
                f"has not looked at all rows: a plan does so for {_CHECK_SECONDS:.0f} s",
                hint="migrate reads the whole table before it copies a row",
            )

    return tuple(replace(context, check_stop=check, moment=f"{now}+00:00") for context in contexts)


def note_checks(
    session: Session,
    config: MigrationConfig,
    contexts: Sequence[PreflightContext],
    decision: Decision,
    noted: Remarks,
) -> None:
    """Note what the checks find that need no new table."""
    if not goes_on(decision):
        return
    noted.add(findings_of(contexts, CheckScope.SERVER))
    for context in contexts:
        name = f"{context.schema}.{context.table}"
        if context.found is not None:
            with noted.refusing(name):
                noted.add(findings_of([context], CheckScope.SOURCE), name)
    with noted.refusing():
        require_throttlers(config, session)
    with noted.refusing():
        require_free_relatives(session, [one for one in contexts if one.found is not None])


def note_surroundings(
    session: Session, config: MigrationConfig, noted: Remarks, *, copies: bool
) -> None:
    """Note what Spark lacks and which replicas nothing watches, if it ``copies``; and of archives.

    Whether files of another file system can be written, only Spark could tell.
    """
    if copies:
        with noted.refusing():
            spark = engine_of(config, SparkEngine)
            trouble = spark if isinstance(spark, str) else unprotected(config)
            if trouble:
                noted.warnings.append(Note(cause=trouble))
        with noted.refusing():
            noted.warnings += [
                Note(cause=cause, remedy=remedy, check="replicas")
                for cause, remedy in unwatched(config, session)
            ]
    if config.archive_to and not is_local(config.archive_to):
        cause = f"whether {config.archive_to} can be written was not tried: that needs Spark"
        remedy = "migrate tries it, and refuses before the copy"
        noted.warnings.append(Note(cause=cause, remedy=remedy))
