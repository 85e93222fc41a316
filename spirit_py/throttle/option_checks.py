"""Whether the throttlers that options ask for can work, known before anything is written."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from spirit_py.codes import ErrorCode
from spirit_py.errors import Refusal
from spirit_py.mysql.facts import written_folders
from spirit_py.mysql.replication import known_replicas
from spirit_py.throttle import lag
from spirit_py.throttle.replica import NO_LAG
from spirit_py.throttle.server import require_query
from spirit_py.units import human_seconds

if TYPE_CHECKING:
    from spirit_py.config import MigrationConfig
    from spirit_py.contracts import SqlSession


_LOOK_SECONDS: Final = 8.0
_SEE_IT: Final = (
    "start it, or correct its settings; --replica for each of the others leaves it out, --max-lag"
    " 0 watches none; --replica-user and --replica-password give the account on the replicas"
)


def require_throttlers(config: MigrationConfig, session: SqlSession) -> None:
    """Check what the options name, before anything is written."""
    if config.throttle_query:
        require_query(config.connection, config.throttle_query, database=config.database)
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
                f"--max-lag: where replicas are is not known (server_id"
                f" {', '.join(map(str, silent))}), so they cannot be watched",
                hint="name each replica with --replica HOST:PORT, or start it with --report-host;"
                " an account with SELECT on performance_schema sees where it is connected from",
                error_code=ErrorCode.LIMIT_NOT_WATCHABLE,
            )
        account = config.replica_account
        unproved = [o for o in known if lag.unnamed(account, o.host, o.port) is None]
        if unproved:
            raise Refusal(
                "--max-lag: no verified TLS proves that these replicas are yours"
                f" ({', '.join(lag.address_of(o.host, o.port) for o in unproved)}), so no password"
                " is sent to them and they cannot be watched",
                hint=lag.NAME_OR_PROVE,
                error_code=ErrorCode.LIMIT_NOT_WATCHABLE,
            )

    if not (watches_replicas(config) and is_strict(config)):
        return
    if unseen := _unseen(config):
        which = "; of ".join(f"{where} cannot be watched: {why}" for where, why in unseen)
        raise Refusal(f"the lag of {which}", hint=_SEE_IT, error_code=ErrorCode.LIMIT_NOT_WATCHABLE)


def unwatched(config: MigrationConfig, session: SqlSession) -> list[tuple[str, str]]:
    """Return replicas that are not waited for, and what to do; may raise `ServerFault`."""
    if is_strict(config) or not watches_replicas(config):
        return []
    known = known_replicas(session)
    silent = [f"the replica with server_id {one.server_id}" for one in known if not one.host]
    unproved = [
        f"replica {lag.address_of(one.host, one.port)}"
        for one in known
        if one.host and lag.unnamed(config.replica_account, one.host, one.port) is None
    ]
    said = [(which, lag.NO_ADDRESS, lag.NAME) for which in silent]
    said += [(which, lag.UNPROVED, lag.NAME_OR_PROVE) for which in unproved]
    if any(one.host for one in known):
        said += [(f"replica {where}", why, _SEE_IT) for where, why in _unseen(config)]
    return [(f"the lag of {which} is not watched: {why}", what) for which, why, what in said]


def _unseen(config: MigrationConfig) -> list[tuple[str, str]]:
    """Return replicas that cannot be watched, with why; a stopped one can: its lag is known."""
    replicas = lag.Replicas(config.connection, config.replicas, account=config.replica_account)
    with contextlib.closing(replicas):
        replicas.look()
        replicas.settle(_LOOK_SECONDS)
        states = [(one.address, one.state) for one in replicas.watched()]
    return [
        (where, seen.trouble or "it does not answer")
        for where, seen in states
        if seen.lost or seen.behind is None or seen.trouble in NO_LAG
    ]


def is_strict(config: MigrationConfig) -> bool:
    """Return whether a replica that cannot be looked at holds the migration back."""
    return bool(config.replicas) or config.relies_on("max_lag")


def watches_replicas(config: MigrationConfig) -> bool:
    """Return whether the lag of replicas is looked at."""
    return config.max_lag is not None


def said_of_lag(config: MigrationConfig) -> str:
    """Return what a plan says of it."""
    if config.max_lag is None:
        return "their lag is not watched (--max-lag 0)"
    limit = human_seconds(config.max_lag)
    unseen = "holds it back" if is_strict(config) else "is left out"
    return (
        f"the work waits while one of them is more than {limit} behind; one that cannot be read"
        f" {unseen}"
    )
