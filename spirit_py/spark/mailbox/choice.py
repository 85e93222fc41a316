"""Pick the mailbox of a gang."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from spirit_py.mysql.processlist import performance_schema_shows_sessions
from spirit_py.spark.mailbox.memory import MemoryMailbox
from spirit_py.spark.mailbox.table import TableMailbox
from spirit_py.spark.mailbox.variables import VariablesMailbox
from spirit_py.sql import quote_table
from spirit_py.table.names import AuxiliaryNames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spirit_py.config import ConnectionOptions
    from spirit_py.contracts import SqlSession
    from spirit_py.spark.gang import GangEngine
    from spirit_py.spark.mailbox.ends import DriverEnd
    from spirit_py.table.schema import TableSchema


@contextlib.contextmanager
def open_mailbox(
    control: SqlSession, options: ConnectionOptions, engine: GangEngine, source: TableSchema
) -> Iterator[DriverEnd]:
    """Open the driver's end for the next gang of an engine.

    Args:
        control: a session of the driver, used by no other thread.
        source: the table beside which the checkpoint table is.
    """
    end: DriverEnd
    if engine.in_process:
        end = MemoryMailbox(control)
    elif performance_schema_shows_sessions(control):
        end = VariablesMailbox(control)
    else:
        checkpoint = AuxiliaryNames.of(source.name).checkpoint
        end = TableMailbox(options, quote_table(source.schema, checkpoint))
    with contextlib.closing(end):
        yield end
