"""What must be true after every run of the command, and at the end."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

import MySQLdb

from spirit_py.codes import ErrorCode
from tests.faults.journal import mismatches, shortened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.faults.scene import Attempt, Scene

GONE_SECONDS = 90.0
#: Where a run that leaves at once cannot know what came of its RENAME.
RENAMING = frozenset({"cutover.rename"})
#: What is said of an error that nobody has provided for.
_OF_A_BUG = re.compile(r"^Traceback \(most recent|this is a (?:bug|defect)", re.MULTILINE)


class Violation(AssertionError):
    """Something is not as the rules say."""


def bug_seen(report: Mapping[str, Any], said: str) -> str:
    """Return what shows a bug of the program in a run; its exit code may be one of trouble."""
    if report.get("error_code") == ErrorCode.DEFECT:
        return str(report.get("error"))
    found = _OF_A_BUG.search(said)
    return said[found.start() :] if found else ""


def after_attempt(scene: Scene, attempt: Attempt, before: list[str]) -> None:
    """Check a run that ended: nothing of it lives, its exit code is true, no row is wrong.

    Args:
        before: the tables of the schema when it started.
    """
    _nothing_lives(scene)
    _code_is_possible(scene, attempt)
    tables, swapped = scene.tables(), scene.swapped()
    code = attempt.code
    if code == 0:
        _require(swapped, "the exit code is 0, and the table has its old definition")
        _require(tables == scene.base, f"the exit code is 0, and there are {tables}")
        _require(scene.catalogue() == scene.attached, "triggers or foreign keys are others")
    if code in {1, 2} and not scene.notes.get("swapped"):
        _require(not swapped, f"the exit code is {code}, and the table is changed")
    if code == 2:
        _require(tables == before, f"refused, and yet {before} became {tables}")
    if not swapped:
        found = scene.show_create()
        _require(found == scene.definition, f"the source became {found}")
    scene.notes["swapped"] = swapped
    _table_is_free(scene)
    _rows_are_right(scene)


def _nothing_lives(scene: Scene) -> None:
    """Processes and sessions of the run are gone, or go within seconds."""
    if not scene.until(lambda: not scene.processes(), GONE_SECONDS):
        raise Violation(f"processes are left: {scene.processes()}")
    if not scene.until(lambda: not scene.sessions(), GONE_SECONDS):
        raise Violation(f"sessions are left: {scene.sessions()}")


def _code_is_possible(scene: Scene, attempt: Attempt) -> None:
    """The exit code is one that this fault can lead to."""
    first = attempt.number == 1 and scene.struck
    codes = scene.draw.fault.codes if first else frozenset({0})
    if scene.draw.fault.name == "sigint-twice" and scene.draw.point not in RENAMING:
        codes -= {3}
    if attempt.code not in codes:
        raise Violation(f"run {attempt.number} ended with {attempt.code}:\n{attempt.tail}")
    if bug := bug_seen(attempt.report, attempt.log.read_text(errors="replace")):
        raise Violation(f"run {attempt.number} has met a bug: {bug}")


def _table_is_free(scene: Scene) -> None:
    """No session holds the table: it can be locked and written."""
    try:
        with contextlib.closing(scene.connect()) as session, session.cursor() as cursor:
            cursor.execute("SET SESSION lock_wait_timeout = 20")
            cursor.execute("LOCK TABLES t WRITE")
            cursor.execute("UNLOCK TABLES")
    except MySQLdb.Error as error:
        raise Violation(f"the table cannot be locked: {error}") from error


def _rows_are_right(scene: Scene) -> None:
    """Every row is as the writers' journals say."""
    with scene.application.paused():
        try:
            found, swapped = scene.rows(), scene.swapped()
        except ValueError as error:
            raise Violation(str(error)) from error
        wrong = mismatches(scene.application.journals, found, swapped=swapped)
        broken = scene.broken()
    if wrong:
        raise Violation(f"{len(wrong)} rows are wrong: {shortened(wrong)}")
    if broken:
        raise Violation(f"effects of triggers or keys are wrong: {'; '.join(broken)}")
    if scene.reader is not None and scene.reader.broken:
        raise Violation(scene.reader.broken)


def at_the_end(scene: Scene) -> int:
    """Check the whole: differences only where they were made. Give the repaired chunks."""
    reader = scene.reader
    if reader is not None:
        before = reader.held
        if not scene.until(lambda: reader.held > before or bool(reader.broken), GONE_SECONDS):
            raise Violation(f"the reader reads no more: {reader}")
        _require(not reader.broken, reader.broken)
    repaired = 0
    for attempt in scene.attempts:
        report = attempt.report
        repaired += int(report.get("chunks_repaired", 0))
        found = int(report.get("differences_found", 0))
        if found and not scene.draw.repair:
            raise Violation(f"run {attempt.number} found {found} differences")
    if scene.draw.fault.expects_repairs and scene.struck and not repaired:
        raise Violation("rows were changed behind the feed, and nothing was repaired")
    return repaired


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Violation(otherwise)
