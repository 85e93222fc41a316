"""Names of auxiliary tables and locks, of 64 characters at most, and the swap (pure)."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from spirit_py.classes import dataclass

if TYPE_CHECKING:
    from spirit_py.table.mapping import TableMapping

Name = tuple[str, str]

MAX_IDENTIFIER = 64
_DIGEST = 10
_TOKEN = re.compile(r"[0-9a-f]{6}")
_LONGEST_SUFFIX = len("_chkpnt")
# RENAME TABLE renames ``t_chk_1`` to ``_t_old_chk_1``, and fails when that is too long (measured:
# error 1059).
_ROOM_FOR_CHECKS = len("_chk_9999")


def _stem(table: str) -> str:
    room = MAX_IDENTIFIER - 1 - _LONGEST_SUFFIX - _ROOM_FOR_CHECKS
    if len(table) <= room:
        return table
    digest = hashlib.sha256(table.encode()).hexdigest()[:_DIGEST]
    return f"{table[: room - _DIGEST - 1]}_{digest}"


@dataclass(frozen=True)
class AuxiliaryNames:
    """The names of a source table's auxiliary tables, each at most 64 characters."""

    new: str
    old: str
    checkpoint: str
    sentinel: str
    undone: str
    requests: str
    moved: str

    @staticmethod
    @lru_cache(maxsize=1024)
    def of(table: str) -> AuxiliaryNames:
        """Derive the names from the source table's name; the same name gives the same result."""
        return AuxiliaryNames._with(_stem(table))

    @classmethod
    def of_checkpoint(cls, name: str) -> AuxiliaryNames | None:
        """Return the names that belong to a checkpoint table's name; None for another name."""
        found = cls._with(name.removeprefix("_").removesuffix("_chkpnt"))
        return found if found.checkpoint == name else None

    @classmethod
    def of_swapped_out(cls, name: str) -> AuxiliaryNames | None:
        """Return the names that belong to that of a table that was swapped out; None for others."""
        found = cls._with(name.removeprefix("_").rpartition("_")[0])
        return found if name in {found.old, found.undone, found.moved} else None

    @classmethod
    def _with(cls, stem: str) -> AuxiliaryNames:
        suffixes = ("new", "old", "chkpnt", "snt", "undone", "ctl", "moved")
        return cls(*(f"_{stem}_{suffix}" for suffix in suffixes))


def require_names(*names: str) -> None:
    """Raise ValueError for a text that the server takes for no name of a table or column."""
    if not all(0 < len(name) <= MAX_IDENTIFIER and "\0" not in name for name in names):
        raise ValueError("a name is not one that the server accepts")


def building_name(table: str, token: str) -> str:
    """Return the name under which a new table is built; of ``token`` as many digits as fit."""
    return f"_{_stem(table)}_{token[: _LONGEST_SUFFIX - 1]}"


def is_building_name(table: str, name: str) -> bool:
    """Return whether a name is of the form of :func:`building_name`."""
    token = name.removeprefix(f"_{_stem(table)}_")
    return bool(_TOKEN.fullmatch(token)) and name == building_name(table, token)


def trial_name(building: str, number: int) -> str:
    """Return the name of a table that definitions are tried on, beside one that is built."""
    return f"{building}_{number}"


def is_trial_name(building: str, name: str) -> bool:
    """Return whether a name is of the form of :func:`trial_name`."""
    number = name.removeprefix(f"{building}_")
    return number.isdecimal() and name == trial_name(building, int(number))


def lock_name(purpose: str, *parts: object) -> str:
    """Build a name for ``GET_LOCK``, at most 64 characters, from any parts, which are hashed."""
    return f"spirit-py:{purpose}:{digest_of(parts)}"[:MAX_IDENTIFIER]


def digest_of(value: object) -> str:
    """Return a digest of plain values: the same for equal ones."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:32]


@dataclass(frozen=True, kw_only=True)
class OfTable:
    """What is about one source table."""

    schema: str
    table: str

    @property
    def name(self) -> Name:
        """Schema and name of the table."""
        return self.schema, self.table

    @property
    def names(self) -> AuxiliaryNames:
        """Names of the tables beside it."""
        return AuxiliaryNames.of(self.table)

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, kw_only=True)
class Swap(OfTable):
    """One table to swap: ``table`` becomes ``old``, ``new`` becomes ``table``."""

    new: str
    old: str

    @classmethod
    def of(cls, mapping: TableMapping, old: str = "") -> Swap:
        """Return the swap that puts the target in the source's place, then called ``old``."""
        source = mapping.source
        old = old or AuxiliaryNames.of(source.name).old
        return cls(schema=source.schema, table=source.name, new=mapping.target.name, old=old)


def moving(name: Name) -> Swap:
    """Return the names of a table that moves to another server."""
    names = AuxiliaryNames.of(name[1])
    return Swap(schema=name[0], table=name[1], new=names.new, old=names.moved)


LOCAL: Final = "file:"
#: A folder's name is 255 bytes at most.
_LONGEST_FOLDER: Final = 200


def is_local(path: str) -> bool:
    """Return whether a path of ``--archive-to`` is of this machine, and not of another system."""
    # A colon behind the first slash is part of a name.
    return ":" not in path.partition("/")[0] or path.startswith(LOCAL)


def archive_folder(archive_to: str, name: Name) -> str:
    """Return the folder of one table's archive: ``schema.table`` below ``--archive-to``.

    A name that a folder cannot have, or another table's could be, ends in a digest.
    """
    whole = ".".join(name)
    plain = quote(whole, safe="").replace("%", "_")
    if plain != whole or whole.count(".") > 1 or len(plain) > _LONGEST_FOLDER:
        digest = hashlib.sha256(repr(name).encode()).hexdigest()[:8]
        plain = f"{plain[:_LONGEST_FOLDER]}-{digest}"
    return f"{archive_to.rstrip('/')}/{plain}"
