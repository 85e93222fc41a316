"""What is alike in all runs of one scenario: values that differ by nature become placeholders.

A placeholder says type and unit: ``<s>``, ``<ms>``, ``<bytes>``, ``<count>``, ``<time>``,
``<version>``. Left out of the recordings, because chance decides on them:

- events that depend on how fast a machine is (:data:`BY_CHANCE`), and how often ``progress`` comes:
  of those lines the names of the fields are recorded;
- the order of events of different threads: the order of :data:`MILESTONES`, which one thread
  reports, is recorded for each table, and of all others each distinct event;
- the live figures that a stopped run has written last, and whether it has written any;
- which of the figures that are only sometimes known is known: they are ``<.. or null>``, and their
  metrics are recorded by type and help alone (:data:`METRICS_BY_CHANCE`);
- what depends on how durable the tests' server is.

A run that is not recorded as a whole (:attr:`Scenario.whole`) is recorded without what is empty or
only a placeholder in its report and in ``status``, and without the plan that it logs: runs that are
recorded as a whole, and ``plan``, have all names.
"""

from __future__ import annotations

import json
import re
import socket
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BY_CHANCE: Final = frozenset(
    {
        "backpressure.begun",
        "backpressure.ended",
        "binlog.expires",
        "checkpoint.written",
        "feed.flaps",
        "feed.lost",
        "feed.reconnected",
        "lock.blocked",
        "lock.unseen",
        "log.lost",
        "log.written",
        "sessions.ended",
        "stop.requested",
        "throttle.begun",
        "throttle.ended",
    }
)
PROGRESS: Final = "progress"
MILESTONES: Final = re.compile(
    r"run\.|statement\.|resume\.|plan\.|algorithm\.|phase\.|copy\.|indexes\.|checksum\.|differences\."
    r"|swap\.|old_table\.|auxiliary\.|reverse\.|attachments\.|batch\.|table\.|duplicates\."
    r"|cutover\.(?:deferred|released|ready)"
)

_DURABILITY: Final = "a crash of the server may lose commits"
_PHASE_ENTERED: Final = "phase.entered"
_PHASE_TEXT: Final = re.compile(r"(?<=phase )\w+|(?<= of )\w+$")
_PLAN_MADE: Final = "plan.made"
_PLACEHOLDER: Final = re.compile(r"<[^<>]*>|\{\w+\}")
_BY_CHANCE_TEXT: Final = re.compile(rf"^<time> \[|{_DURABILITY}")
#: Numbers that are the same in every run, by the name of their field.
_EXACT: Final = frozenset(
    {
        *("format", "exit_code", "runs", "number", "tries", "passes", "differences", "columns"),
        *("rows", "rows_copied", "rows_copied_before", "rows_copied_by_spark", "checksum_rows"),
        *("differences_found", "chunks_repaired", "repaired_chunks", "checksum_passes"),
        *("cutover_attempts", "index_build_tries", "refused", "left", "threads", "parallel"),
    }
)
#: Figures that are known or not, as chance has it.
_SOMETIMES: Final = frozenset(
    {"least_tasks", "live_age", "median_tasks", "resumable_for", "rows_estimated", "bytes"}
)
#: The same of the live figures of a run.
_SOMETIMES_LIVE: Final = frozenset(
    {
        *("applied_rate", "apply_sessions", "binlog_left", "binlog_older", "binlog_unread"),
        *("byte_rate", "checkpoint_age", "chunk_rows", "chunk_seconds", "deduplicated_part"),
        *("eta", "feed_lag"),
        *("fraction", "pending", "buffered_bytes", "rate", "received_rate", "rows", "rows_total"),
        *("run_eta", "tasks", "tasks_most", "waited"),
    }
)
#: Texts of which chance decides whether they are empty.
_TEXTS_LIVE: Final = frozenset({"throttled", "waiting_for", "pace", "note", "parked"})
_LIVE_MARK: Final = "feed_lag"
#: Beside it the rows are those that the server estimates.
_ESTIMATE_MARK: Final = "data_bytes"
METRICS_BY_CHANCE: Final = frozenset(
    {
        *("binlog_left_seconds", "binlog_unread_bytes", "bytes_per_second", "chunk_rows"),
        *("checkpoint_age_seconds", "chunk_seconds", "eta_seconds"),
        *("feed_lag_seconds", "progress_ratio", "rows_per_second"),
        *("run_eta_seconds", "table_rows", "tasks", "tasks_limit", "throttled_seconds"),
    }
)
"""Metrics that are there or not, without the program's prefix."""
#: Objects whose names come and go with what a run has met.
_OPEN: Final = frozenset({"throttled_seconds", "run_eta_parts"})
#: Objects that have a version under each name, and those that have seconds.
_VERSIONS: Final = "versions"
_PHASES: Final = "phases"
_UNIT: Final = (
    (re.compile(r"_ms$"), "<ms>"),
    (re.compile(r"bytes"), "<bytes>"),
    (re.compile(r"seconds|_age$|^age$|elapsed|eta|waited|^left$|_for$"), "<s>"),
    (re.compile(r"rate$"), "<per s>"),
)
_CLOCK: Final = r"\d\d(?::\d\d){1,2}(?:\.\d+)?"
_UNKNOWN: Final = "<count>"
_TIME: Final = r"(?:\d+(?:\.\d+)?(?: ?ms|s\b| s\b| min\b)|\d+d\d+h|\d+h\d+m|\d+m\d+s)"
_INTERVAL: Final = r"\d+(?:-\d+)?"
_TAG: Final = r"[a-z_]\w{0,31}"
_GTIDS: Final = rf"[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}(?::(?:{_INTERVAL}|{_TAG}))*"
"""The transactions of one server; those with a tag follow the others (manual, 19.1.3.1)."""
_TEXTS: Final = (
    (re.compile(rf"\d{{4}}(?:-\d\d){{2}}[T ]{_CLOCK}(?:Z|[+-]\d\d:\d\d| UTC)?"), "<time>"),
    (re.compile(_GTIDS), "<gtid>"),
    (re.compile(r"(?:<gtid>,\s*)*<gtid>"), "<gtid>"),
    (re.compile(r"\b[\w-]*(?:bin|binlog)\.\d{6}\b(?::\d+)?"), "<binlog>"),
    (re.compile(r"\b[0-9a-f]{16,}\b"), "<token>"),
    (re.compile(rf"(?<![\w.]){_TIME}"), "<duration>"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:B|KiB|MiB|GiB|TiB)\b"), "<size>"),
    (re.compile(r"\b\d+(?:\.\d+)?%"), "<percent>"),
    (re.compile(r"(about |~)\d+(?: \d{3})* rows"), r"\1<count> rows"),
    (re.compile(r"\d+ rows(?=, [^,;]+, as the server estimates)"), "<count> rows"),
    (re.compile(r"(_spirit_py_batch_)[0-9a-f]{12}"), r"\1<token>"),
    (re.compile(r"--port \d+"), "--port <number>"),
    (re.compile(r"\bsession \d+"), "session <number>"),
    (re.compile(r"\bprocess \d+"), "process <number>"),
    (re.compile(r"\b\d+ chunks?\b"), "<count> chunks"),
    (re.compile(r"\b\d+(?: \d{3})* (received|applied|deduplicated|left to)\b"), r"<count> \1"),
)  # fmt: skip


class Normaliser:
    """Replaces what varies.

    Args:
        names: texts of this run, such as its schema, with what they become; longer ones first.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = sorted(names.items(), key=lambda pair: -len(pair[0]))

    def text(self, text: str) -> str:
        """Return a text without what varies."""
        for name, becomes in self._names:
            text = text.replace(name, becomes)
        for pattern, becomes in _TEXTS:
            text = pattern.sub(becomes, text)
        return text

    def value(self, value: Any, name: str = "", unit: str = "", *, live: bool = False) -> Any:
        """Return a JSON value without what varies.

        Args:
            name: of the field that has it.
            unit: of the numbers in it; by default as the name says.
            live: it is a figure of a run that goes on.
        """
        unit = unit or _unit(name)
        if name in _OPEN:
            return "<object>"
        if live and name in _TEXTS_LIVE:
            return "<text>"
        if name in _SOMETIMES or (live and name in _SOMETIMES_LIVE):
            return f"<{unit[1:-1]} or null>"
        if isinstance(value, dict):
            inner = "<s>" if name == _PHASES else "" if unit == _UNKNOWN else unit
            if name == _VERSIONS:
                return dict.fromkeys(sorted(value), "<version>")
            if _ESTIMATE_MARK in value and "rows" in value:
                value = {**value, "rows": _UNKNOWN}
            if value.get("state") == "stopped" and "live" in value:
                value = {**value, "live": "<object or null>"}
            now = _LIVE_MARK in value
            return {
                self.text(key): self.value(one, key, inner, live=now)
                for key, one in sorted(value.items())
                if not (now and key == "history")
            }
        if isinstance(value, list):
            return [self.value(one, name) for one in value if not _is_about_durability(one)]
        if isinstance(value, str):
            # As a whole: a machine may have the name of a phase, say.
            return "{host}" if (name, value) == ("host", socket.gethostname()) else self.text(value)
        if isinstance(value, bool) or value is None:
            return value
        exact = name in _EXACT and isinstance(value, int)
        return value if exact else unit

    def events(self, lines: Iterable[str], *, whole: bool) -> dict[str, Any]:
        """Return the stable form of JSON lines of events; other lines are under ``lines``.

        Args:
            whole: the plan that a run logs is recorded too.
        """
        found: list[dict[str, Any]] = []
        other: list[str] = []
        for line in lines:
            try:
                found.append(json.loads(line))
            except ValueError:
                other.append(self.text(line))
        milestones: dict[str, list[str]] = {}
        distinct: dict[str, dict[str, Any]] = {}
        for event in found:
            if _is_about_durability(event):
                continue
            name = event["event"]
            if name == _PHASE_ENTERED:
                shown = f"phase {event['phase']}"
                event.update(phase="<phase>", before="<phase>")
                event["text"] = _PHASE_TEXT.sub("<phase>", event["text"])
            else:
                shown = name
            if MILESTONES.match(name):
                milestones.setdefault(self.text(event["table"]), []).append(shown)
            if name in BY_CHANCE or name == PROGRESS:
                continue
            seen = self.value({k: v for k, v in event.items() if k not in {"run", "time"}})
            if name == _PLAN_MADE and not whole:
                seen["plan"] = "<plan>"
            distinct[json.dumps([name, seen], sort_keys=True)] = seen
        result: dict[str, Any] = {
            "milestones": milestones,
            "events": [distinct[key] for key in sorted(distinct)],
        }
        if other:
            result["lines"] = other
        return result


def lines_of_text(lines: Iterable[str]) -> list[str]:
    """Return log lines as text, which are normalised, in the order of the alphabet."""
    return sorted({line for line in lines if not _BY_CHANCE_TEXT.search(line)})


def brief(value: Any) -> Any:
    """Return a JSON value without fields that are empty, or only a placeholder."""
    if isinstance(value, dict):
        short = {key: brief(one) for key, one in value.items()}
        return {key: one for key, one in short.items() if one and not _is_placeholder(one)}
    if isinstance(value, list):
        return [brief(one) for one in value]
    return value


def _is_placeholder(value: Any) -> bool:
    return isinstance(value, str) and _PLACEHOLDER.fullmatch(value) is not None


def _is_about_durability(value: Any) -> bool:
    """Whether it is a warning about the settings of the server, which tests' servers have."""
    if isinstance(value, dict):
        value = value.get("cause") or (value.get("event") == "warning" and value["text"])
    return isinstance(value, str) and value.startswith(_DURABILITY)


def progress_fields(lines: Iterable[str]) -> list[str]:
    """Return the names of the fields of progress lines, those of their totals with a dot."""
    names: set[str] = set()
    for line in lines:
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("event") == PROGRESS:
            names |= event.keys()
            names |= {f"totals.{name}" for name in event["totals"] or ()}
    return sorted(names)


def _unit(name: str) -> str:
    for pattern, unit in _UNIT:
        if pattern.search(name):
            return unit
    return _UNKNOWN
