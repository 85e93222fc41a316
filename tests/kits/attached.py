"""A swap of tables with foreign keys, without a migration around it."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spirit_py.checkpoint.record import CheckpointRecord, TableProgress
from spirit_py.checkpoint.table import CheckpointTable
from spirit_py.config import RunConfig
from spirit_py.migration.swap.attachments import SwapAttachments
from spirit_py.mysql.connect import connect
from spirit_py.phases import Phase
from spirit_py.table.names import Swap
from spirit_py.threads import StopSwitch
from tests.kits.connection import connection_options
from tests.kits.reporter import lines_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spirit_py.attached.foreign_keys.model import ForeignKey


class SwapProcess:
    """What the attachments of a swap need of a process."""

    def __init__(self, db: Any) -> None:
        self.config = RunConfig(connection=connection_options(db), database=db.name)
        self.stop = StopSwitch()
        self.messages: list[str] = []
        self.tell = lines_to(self.messages.append)

    def show(self, waiting_for: str) -> None:
        """Show nothing."""

    def held_up(self, what: str, seconds: float) -> None:
        """Count nothing."""


def as_it_is(key: ForeignKey) -> ForeignKey:
    """Return the key."""
    return key


@dataclass
class Swapping:
    """Tables with their copies, beside each of which is a checkpoint table."""

    db: Any
    names: tuple[str, ...]
    carried: Callable[[ForeignKey], ForeignKey | None] = as_it_is
    process: Any = field(init=False)

    def __post_init__(self) -> None:
        """Make the copies with one more column, and the checkpoint tables."""
        self.process = SwapProcess(self.db)
        for name in self.names:
            self.db.execute(f"CREATE TABLE `_{name}_new` LIKE `{name}`")
            self.db.execute(f"ALTER TABLE `_{name}_new` ADD COLUMN extra INT")
            columns = ", ".join(
                f"`{row[0]}`" for row in self.db.query(f"SHOW COLUMNS FROM `{name}`")
            )
            self.db.execute(f"INSERT INTO `_{name}_new` ({columns}) SELECT {columns} FROM `{name}`")
            record = CheckpointRecord(
                statement="x",
                tables=(TableProgress(schema=self.db.name, table=name),),
                server_uuid="x",
                phase=Phase.COPY.value,
            )
            with self.session() as session:
                CheckpointTable(self.db.name, name).create(session, record)

    def session(self) -> Any:
        """Open a session of the program."""
        return connect(connection_options(self.db), role="test")

    @property
    def swaps(self) -> tuple[Swap, ...]:
        """The names that are exchanged."""
        return tuple(
            Swap(schema=self.db.name, table=name, new=f"_{name}_new", old=f"_{name}_old")
            for name in self.names
        )

    def attachments(self) -> SwapAttachments:
        """Return what is attached to the tables, for one swap."""
        return SwapAttachments(job=self.process, swaps=self.swaps, carried=self.carried)


def definitions(db: Any, tables: Iterable[str], *, added: str = "extra") -> dict[str, str]:
    """Return the definitions of tables, without a column that the change has added."""
    found = {}
    for table in tables:
        text = str(db.query(f"SHOW CREATE TABLE `{table}`")[0][1])
        found[table] = re.sub(rf"\n  `{added}` int DEFAULT NULL,", "", text)
    return found


def loose_ends(db: Any) -> list[tuple[str, ...]]:
    """Return the keys of auxiliary tables, those to them, and those with a temporary name."""
    return db.query(
        "SELECT table_name, constraint_name, referenced_table_name"
        " FROM information_schema.referential_constraints WHERE constraint_schema = %s"
        " AND (table_name LIKE '\\_%%' OR referenced_table_name LIKE '\\_%%'"
        " OR constraint_name LIKE '\\_spirit%%')",
        (db.name,),
    )


def run_killed_after(swapping: Swapping, number: int) -> bool:
    """Send the first statements of a packet under the lock, as a KILL after them leaves it.

    Returns:
        Whether the RENAME is among them.
    """
    attached = swapping.attachments()
    attached.survey()
    packet = attached.statements
    with contextlib.closing(swapping.session()) as session:
        locked = [(s.schema, name) for s in swapping.swaps for name in (s.table, s.new)]
        names = ", ".join(f"`{s}`.`{t}` WRITE" for s, t in [*locked, *attached.tables])
        session.execute(f"LOCK TABLES {names}")
        if number:
            done, fault = session.execute_packet(packet.all[:number])
            assert (done, fault) == (number, None)
    return packet.renamed_after(number)
