"""What ``--archive-to`` needs on this machine, before anything is written."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.preflight.check import Findings, PreflightContext, refuse
from spirit_py.preflight.row_expression import Given, read_row_expression
from spirit_py.spark.java import require_java
from spirit_py.spark.runtime import obstacle
from spirit_py.spark.settings import single_machine
from spirit_py.table.names import LOCAL, archive_folder, is_local

if TYPE_CHECKING:
    from spirit_py.config import MigrationConfig
    from spirit_py.table.schema import TableSchema

_GLOBS: Final = frozenset("*?[]{}\\")


def archive(context: PreflightContext) -> Findings:
    """Refuse an archive that could not be written after the swap."""
    config = context.config
    if not config.archive_to:
        return
    try:
        require_archivable(config)
        require_names(context.source)
        _require_empty(Path(archive_folder(config.archive_to, (context.schema, context.table))))
        if config.archive_by:
            code = ErrorCode.ARCHIVE_REFUSED
            given = Given(option="--archive-by", text=config.archive_by, code=code)
            read_row_expression(
                context.session, context.source, given, context.facts, moment=context.moment
            )
    except Refusal as refusal:
        yield refuse(refusal.message, refusal.hint, code=refusal.error_code)


def require_archivable(config: MigrationConfig) -> None:
    """Refuse where Spark or its library for Arrow is missing, or a local folder cannot be used."""
    require_java()
    if importlib.util.find_spec("pyarrow") is None:
        raise _refusal(
            "an archive needs pyarrow, which is not installed",
            "pip install 'spirit-py[archive]'",
        )
    if found := obstacle(config):
        raise _refusal(*found)
    path = config.archive_to
    if globs := _GLOBS.intersection(path):
        raise _refusal(
            f"{path} has {' '.join(sorted(globs))}, with which Spark names many folders",
            "name another folder",
        )
    behind = path.removeprefix(LOCAL)
    whole = behind.startswith("///") or not behind.startswith("//")
    if not whole or (path.lower().startswith(LOCAL) and not path.startswith(f"{LOCAL}/")):
        raise _refusal(f"{path} is no whole path behind file:", "write the path without file:")
    if not is_local(path):
        return
    if not single_machine(config):
        raise _refusal(
            f"{path} is a folder of this machine, and executors of {config.spark_master} are on"
            " others",
            "name a folder that all of them reach, such as s3a://... or hdfs://...",
        )
    folder = _local(path)
    there = next(one for one in (folder, *folder.parents) if one.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise _refusal(f"{there} is no folder that can be written", "name another folder")


def require_names(table: TableSchema) -> None:
    """Refuse a column whose name Hadoop's settings would replace in the files (measured)."""
    for column in table.columns:
        if "${" in column.name:
            raise _refusal(
                f"{table.full_name} cannot be archived: files of Spark would have another name for"
                f" its column {column.name}",
                "rename the column",
            )


def _require_empty(folder: Path) -> None:
    """Refuse a folder of this machine that has a file: it would be refused after the swap."""
    if not is_local(str(folder)) or not (there := _local(str(folder))).exists():
        return
    if not there.is_dir() or not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        raise _refusal(f"{there} is no folder that can be written", "name another folder")
    if any(one.is_file() for one in there.rglob("*")):
        raise _refusal(
            f"{there} is not empty", "name a folder for this archive alone, such as one of its day"
        )


def _local(path: str) -> Path:
    return Path(path.removeprefix(LOCAL)).absolute()


def _refusal(cause: str, remedy: str) -> Refusal:
    return Refusal(cause, hint=remedy, error_code=ErrorCode.ARCHIVE_REFUSED)
