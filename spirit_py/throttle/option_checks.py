"""Whether the throttlers that options ask for can work, known before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.mysql.local_disk import written_folders
from spirit_py.mysql.replication import known_replicas
from spirit_py.throttle.lag.replicas import address_of, unnamed
from spirit_py.throttle.lag.throttler import NAME_OR_PROVE
from spirit_py.throttle.query import QueryThrottler
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SqlSession


def require_throttlers(config: MigrationConfig, session: SqlSession) -> None:
    """Check what the options name, before anything is written.

    Raises:
        Refusal: a throttler that was asked for could not work.
    """
    if config.throttle_query:
        QueryThrottler(config.connection, config.throttle_query, database=config.database).check()
    if config.relies_on("min_free_disk") and not written_folders(session):
        raise Refusal(
            "--min-free-disk: the server's data directory cannot be read from this machine, and no"
            " statement returns how much of its disk is free",
            hint="leave it out, or use --max-binlog-space, --throttle-query or --throttle-http",
            error_code=ErrorCode.LIMIT_NOT_WATCHABLE,
        )
    if config.relies_on("max_lag") and not config.replicas:
        known = known_replicas(session)
        silent = [one.server_id for one in known if not one.host]
        if silent:
            raise Refusal(
                f"--max-lag: replicas report no address (server_id {', '.join(map(str, silent))}),"
                " so they cannot be watched",
                hint="name each replica with --replica HOST:PORT, or start it with --report-host",
                error_code=ErrorCode.LIMIT_NOT_WATCHABLE,
            )
        unproved = [o for o in known if unnamed(config.connection, o.host, o.port) is None]
        if unproved:
            raise Refusal(
                "--max-lag: replicas are known by their own word alone"
                f" ({', '.join(address_of(o.host, o.port) for o in unproved)}), and no verified TLS"
                " proves them, so they get no password and cannot be watched",
                hint=NAME_OR_PROVE,
                error_code=ErrorCode.LIMIT_NOT_WATCHABLE,
            )


def is_strict(config: MigrationConfig) -> bool:
    """Return whether a replica that cannot be looked at holds the migration back."""
    return bool(config.replicas) or config.relies_on("max_lag")


def watches_replicas(config: MigrationConfig) -> bool:
    """Return whether the lag of replicas is looked at."""
    return config.max_lag is not None


def said_of_lag(config: MigrationConfig) -> str:
    """Return what a plan says of it."""
    if config.max_lag is None:
        return "their lag is not looked at (--max-lag 0)"
    limit = human_seconds(config.max_lag)
    unseen = "holds it back" if is_strict(config) else "is left out"
    return (
        f"the work waits while one of them is more than {limit} behind; one that cannot be read"
        f" {unseen}"
    )
