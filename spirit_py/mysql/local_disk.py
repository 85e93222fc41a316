"""Where a server on this machine keeps its files; no statement returns the free space of a disk."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spirit_py.contracts import SqlSession

_UUID = re.compile(r"^server-uuid=(.+)$", re.MULTILINE)


def data_folder(datadir: str, uuid: str) -> Path | None:
    """Return a server's data directory; None when it is not on this machine, or may not be read.

    Its ``auto.cnf`` names the server's uuid.
    """
    folder = Path(datadir)
    try:
        found = _UUID.search((folder / "auto.cnf").read_text())
    except OSError:
        return None
    return folder if found is not None and found[1].strip() == uuid else None


def written_folders(session: SqlSession) -> tuple[Path, ...]:
    """Return the folders of data and binlog; none for a server that is not on this machine."""
    ((datadir, uuid, binlog),) = session.query(
        "SELECT @@GLOBAL.datadir, @@GLOBAL.server_uuid, @@GLOBAL.log_bin_basename"
    )
    folder = data_folder(str(datadir), str(uuid))
    if folder is None:
        return ()
    return tuple(dict.fromkeys((folder, Path(str(binlog)).parent if binlog else folder)))
