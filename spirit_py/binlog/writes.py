"""Which writes in STATEMENT format may be passed over (R13; pure).

A session that logs statements leaves no row images, and the binlog does not show what else its
write changes (by a trigger, a view, a stored function, a foreign key). It is passed over only if it
writes to one table, read by one anchored match, and that table is in the schema ``mysql`` or the
operator named it, because no such write to it reaches a followed table. Any other write stops
the run.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

from spirit_py.binlog.statements import Name, readings
from spirit_py.errors import HiddenChange, StatementWrite
from spirit_py.sql import quote_identifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spirit_py.binlog.events import StatementSeen, Table

OPTION: Final = "--pass-statement-writes"
_SYSTEM: Final = "mysql"
_ROWS_NEXT_TIME: Final = "SET binlog_format=ROW in that client"
#: Only keywords and blanks are before a target, and the text after it excludes a second target. A
#: space stands for one blank or more, ``~`` for any number; ``#`` ends a word.
_FORMS: Final = (
    r"(?:INSERT|REPLACE)(?: INSERT_HINT)*+(?: INTO)?+ TARGET(?:~\(| INSERT_GOES_ON#)",
    r"UPDATE(?: (?:LOW_PRIORITY|IGNORE))*+ TARGET SET#",
    r"DELETE(?: (?:LOW_PRIORITY|QUICK|IGNORE))*+ FROM TARGET(?: (?:WHERE|ORDER|LIMIT)#|~\Z)",
    r"LOAD DATA(?: LOAD_HINT)*+ INFILE '[^'\\]*+'(?: LOAD_HINT)?+ INTO TABLE TARGET(?:~\(| [A-Z])",
)
_WORDS: Final = {
    "INSERT_HINT": "(?:LOW_PRIORITY|DELAYED|HIGH_PRIORITY|IGNORE)",
    "INSERT_GOES_ON": "(?:VALUES?|SELECT|SET|TABLE|WITH|PARTITION)",
    "LOAD_HINT": "(?:LOW_PRIORITY|CONCURRENT|LOCAL|REPLACE|IGNORE)",
}
_NAME: Final = r"(?:`((?:[^`]|``)++)`|([0-9A-Z_$]++))"


def _compiled(form: str) -> re.Pattern[str]:
    marks = {" ": r"[ \t-\r]++", "~": r"[ \t-\r]*+", "#": r"(?![0-9A-Z_$\x80-\U0010ffff])"}
    for word, pattern in _WORDS.items():
        form = form.replace(word, pattern)
    form = re.sub("[ ~#]", lambda found: marks[found[0]], f"~{form}")
    dot = marks["~"] + "[.]" + marks["~"]
    target = f"{_NAME}(?:{dot}{_NAME})?+"
    return re.compile(form.replace("TARGET", target), re.IGNORECASE | re.ASCII)


_WRITES: Final = tuple(_compiled(form) for form in _FORMS)


def target_of(sql: str, schema: str) -> Name | None:
    """Return the one table that a write is certain to write to, if it can be read.

    Args:
        schema: the session's default schema.
    """
    for write in _WRITES:
        if found := write.match(sql):
            names = [name.replace("``", "`") for name in found.groups() if name is not None]
            return Name("", names[-1]).within(names[0] if len(names) > 1 else schema)
    return None


class StatementWrites:
    """Passes a write over, or raises.

    Args:
        passable: the tables that ``--pass-statement-writes`` names.
        ours: whether a table, by schema and name, is one whose rows must be known.
        ignore_case: the server's ``lower_case_table_names`` is not 0.
        onward: what the operator does to pass a write over; ``{}`` stands for the option.
        give_up: what the operator does where no option can.
    """

    def __init__(
        self,
        passable: Iterable[Table],
        ours: Callable[[str, str], bool],
        *,
        ignore_case: bool,
        onward: str,
        give_up: str,
    ) -> None:
        self._fold: Callable[[str], str] = str.lower if ignore_case else str
        self._passable = {(self._fold(schema), self._fold(table)) for schema, table in passable}
        self._ours = ours
        self._onward = onward
        self._give_up = give_up

    def take(self, event: StatementSeen) -> None:
        """Take a statement of the stream.

        Raises:
            HiddenChange: it writes to a followed table.
            StatementWrite: it is a write that may not be passed over.
        """
        if not any(statement.writes for statement in readings(event)):
            return
        said = f"{event.excerpt} ({event.where})"
        targets = self._targets(event)
        for target in targets:
            if self._ours(target.schema, target.table or ""):
                raise HiddenChange(
                    f"a session wrote to {target} in STATEMENT format, without row images: {said}",
                    hint=f"{_ROWS_NEXT_TIME}, {HiddenChange.CARRY_ON}",
                )
        unknown = next((target for target in targets if not self._passes(target)), None)
        if targets and unknown is None:
            return
        raise StatementWrite(
            f"a session wrote to {unknown or 'a table that is not certain'} in STATEMENT format,"
            f" and rows of a followed table may be among what it changed: {said}",
            hint=self._hint(unknown),
        )

    def _hint(self, target: Name | None) -> str:
        """Return the next step, and what the operator answers for by it."""
        if target is None:
            return (
                f"{OPTION} passes over no statement whose target it cannot read;"
                f" {self._give_up}; {_ROWS_NEXT_TIME}"
            )
        option = f"{OPTION} {shlex.quote(_written(target))}"
        return (
            "if no such write to that table reaches a followed one (through a trigger, a view, a"
            f" function or a foreign key), {self._onward.format(option)}; {_ROWS_NEXT_TIME} spares"
            " later runs this"
        )

    def _targets(self, event: StatementSeen) -> list[Name]:
        """Return the target in each reading; empty unless there is one in all of them."""
        found = [target_of(sql, event.schema) for sql in event.texts] if event.certain else []
        return [target for target in found if target] if all(found) else []

    def _passes(self, target: Name) -> bool:
        schema = self._fold(target.schema)
        return schema == _SYSTEM or (schema, self._fold(target.table or "")) in self._passable


def _written(target: Name) -> str:
    parts = (target.schema, target.table or "")
    plain = not any(set(part) & {".", "`"} for part in parts)
    return ".".join(parts if plain else map(quote_identifier, parts))
