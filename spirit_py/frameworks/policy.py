"""Which tables are changed online without being asked to, by a team's settings (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spirit_py.classes import dataclass
from spirit_py.errors import UsageFault
from spirit_py.units import read_size

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES: Final = ("min_rows", "min_size", "tables")
#: They would make rows, or copied work, go of each table that goes online.
_OF_ONE_CHANGE: Final = ("keep", "allow_data_loss", "start_afresh")
#: What an ini file may have in their place.
_ASKS_NOTHING: Final = frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The tables whose ALTERs go online.

    ``min_rows`` is by the server's estimate, ``min_size`` bytes of data and indexes; None for any
    size. ``tables`` are large whatever their size, as ``table`` or ``schema.table``.
    """

    min_rows: int | None = None
    min_size: int | None = None
    tables: frozenset[str] = frozenset()

    @property
    def chooses_any(self) -> bool:
        """Whether a table could go online unasked."""
        return bool(self.tables) or self.min_rows is not None or self.min_size is not None

    def chooses(
        self, schema: str, table: str, *, rows: int, size: int, letters_alike: bool = False
    ) -> bool:
        """Return whether a table that has rows goes online; ``letters_alike``: in any case."""
        names, listed = {table, f"{schema}.{table}"}, set(self.tables)
        if letters_alike:
            names, listed = ({one.lower() for one in some} for some in (names, listed))
        if names & listed:
            return True
        large = self.min_rows is not None and rows >= self.min_rows
        return large or (self.min_size is not None and size >= self.min_size)


def split_settings(settings: Mapping[str, Any]) -> tuple[Policy, dict[str, Any]]:
    """Split settings, perhaps texts of an ini file, into policy and options; or UsageFault."""
    for name in _OF_ONE_CHANGE:
        if str(settings.get(name) or "").strip().lower() not in _ASKS_NOTHING:
            raise UsageFault(
                f"{name} is a setting of the project, and would hold for every table",
                hint=f"give {name} to the operation of that one change",
            )
    tables = settings.get("tables") or ()
    if isinstance(tables, str):
        tables = tables.replace(",", " ").split()
    policy = Policy(
        min_rows=_count("min_rows", settings.get("min_rows")),
        min_size=_count("min_size", settings.get("min_size")),
        tables=frozenset(tables),
    )
    return policy, {name: value for name, value in settings.items() if name not in _NAMES}


def _count(name: str, value: object) -> int | None:
    if value is None:
        return None
    text = str(value).replace("_", "")
    try:
        if name == "min_rows" and not text.strip().isdecimal():
            raise ValueError(text)
        return read_size(text)
    except ValueError:
        raise UsageFault(
            f"{name} is {value!r}, which is not a number",
            hint="write for instance min_rows 1000000, or min_size 20G",
        ) from None
