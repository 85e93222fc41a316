"""The program under test: its own feed, applier, copier, comparison and cutover, put together.

They are imported while the simulated clock and threads stand in the place of the real ones, so
import this module in a process of its own (``python -m tests.simulation``).
"""

from __future__ import annotations

import contextlib
import itertools
import random
import secrets
import sys
import uuid
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import MySQLdb

# Loaded before: libraries keep the real clock and threads.
import pymysqlreplication  # noqa: F401
import rich.console  # noqa: F401
import tenacity  # noqa: F401
from greenlet import GreenletExit

from tests.simulation.primitives import stand_in

with stand_in():
    import spirit_py.mysql.connect
    import spirit_py.mysql.session
    from spirit_py.applier.applier import SqlApplier
    from spirit_py.binlog import source as binlog_source
    from spirit_py.checkpoint import record
    from spirit_py.checksum.checker import Checker
    from spirit_py.checksum.result import ChecksumOptions
    from spirit_py.checksum.worker import Comparison
    from spirit_py.chunk.lanes import LaneChunker
    from spirit_py.chunk.watermark import CopiedSoFar, Rest
    from spirit_py.config import ConnectionOptions, FeedOptions
    from spirit_py.copier import copier, crew
    from spirit_py.copier.copier import (
        BoundaryReader,
        Copier,
        CopyOptions,
        TableCopy,
        last_copied_key,
    )
    from spirit_py.copier.fence import end_earlier_chunks
    from spirit_py.cutover.cutover import Cutover
    from spirit_py.cutover.plan import CutoverLimits, CutoverPlan
    from spirit_py.errors import SpiritError
    from spirit_py.feed import reception
    from spirit_py.feed.feed import ChangeFeed
    from spirit_py.locks.blockers import KillPolicy, LockPolicy
    from spirit_py.locks.named import AdvisoryLock
    from spirit_py.mysql import grants, own_sessions
    from spirit_py.mysql.connect import connect
    from spirit_py.mysql.faults import server_fault
    from spirit_py.mysql.kill import end_earlier_sessions
    from spirit_py.mysql.own_sessions import run_label, token_of
    from spirit_py.mysql.retry import RenewedSession, retrying
    from spirit_py.pace import Unhindered
    from spirit_py.spark.choice import DriverEngine
    from spirit_py.statement import index_definitions, lexer
    from spirit_py.table.names import Swap, lock_name
    from spirit_py.threads import Background, StopSwitch, every
    from tests.kits.definitions import ID, column, mapping
    from tests.simulation.binlog import Dump
    from tests.simulation.driver import Connection, Wire
    from tests.simulation.statements import answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spirit_py.feed.subscription import TableSubscription
    from spirit_py.mysql.session import Session
    from spirit_py.table.mapping import TableMapping
    from tests.simulation.server import Server
    from tests.simulation.statements import Rows

CLIENT_ERRORS = MySQLdb.Error
_SERVER: list[Server] = []


def there(number: int) -> str:
    """Return the address of another server, from 1; every other address is the first's."""
    return f"there{number}"


def serve(server: Server, *others: Server) -> None:
    """Have every process reach this server from now on, and others at their addresses."""
    _SERVER[:] = [server, *others]


def server() -> Server:
    """Return the server of the world that is played."""
    return _SERVER[0]


def _at(host: str) -> Server:
    return _SERVER[int(host.removeprefix("there")) if host.startswith("there") else 0]


class _Driver:
    """What ``load_driver`` returns."""

    Error = MySQLdb.Error

    @staticmethod
    def connect(*, host: str = "", **_: Any) -> Connection:
        """Connect to the model server of an address."""
        return Connection(_at(host))


def dump(options: Any, *, gtids: Any, silence: float, place: Any = None, **_: Any) -> Dump:
    """Open a dump of the model server's binlog."""
    return Dump(_at(options.host), gtids=gtids, silence=silence, place=place)


def _wire(session: Any) -> Wire:
    return Wire(session._connection.session)


setattr(spirit_py.mysql.connect, "load_driver", lambda: _Driver)  # noqa: B010 (its type is another one)
setattr(spirit_py.mysql.session, "duplicate", _wire)  # noqa: B010
setattr(binlog_source, "BinlogConnection", dump)  # noqa: B010

# Pure functions of the program that the sessions of a process call again and again.
for _module, _name in (
    (own_sessions, "_claimed"),
    (own_sessions, "_digest"),
    (own_sessions, "_holders_of"),
    (own_sessions, "_holders_of_numbers"),
    (spirit_py.mysql.connect, "_restricted"),
    (spirit_py.mysql.connect, "_settings"),
    (spirit_py.mysql.connect, "shown_run"),
):
    setattr(_module, _name, lru_cache(maxsize=10_000)(getattr(_module, _name)))


def _keep(module: Any, name: str, make: Callable[..., Any] | None = None) -> None:
    """Have a pure function of the program's keep its results, wherever it was imported."""
    pure = getattr(module, name)
    kept = lru_cache(maxsize=10_000)(make(pure) if make else pure)
    for one in [one for at, one in sys.modules.items() if at.startswith("spirit_py.")]:
        for at, found in list(vars(one).items()):
            if found is pure:
                setattr(one, at, kept)


def _listed(pure: Callable[..., Iterator[Any]]) -> Callable[..., tuple[Any, ...]]:
    """Return what a generator yields, at once."""
    return lambda *given: tuple(pure(*given))


_keep(lexer, "tokenize")
_keep(record, "digest_of")
_keep(grants, "_grants_of", _listed)
_keep(index_definitions, "_secondary", _listed)
setattr(spirit_py.mysql.connect, "probe", lambda _: None)  # noqa: B010 (a socket's options)
# The model's driver reads the host only.
setattr(spirit_py.mysql.connect, "_arguments", lambda options: {"host": options.host})  # noqa: B010
setattr(spirit_py.mysql.connect, "tls_arguments", lambda *_: {})  # noqa: B010

_prepare = spirit_py.mysql.connect._prepare


class _AtOnce:
    """A session to whose statements nothing comes between."""

    def __init__(self, session: Session) -> None:
        self.role, self.id, self.origin = session.role, session.id, session.origin
        self._where = f"{session.role} session at {session.address}"
        self._model = session._connection.session

    def _answer(self, sql: str, parameters: Sequence[object] | None) -> tuple[Rows, int]:
        try:
            return answer(self._model, sql, parameters or ())
        except MySQLdb.Error as error:
            raise server_fault(error, where=self._where) from error

    def execute(self, sql: str, parameters: Sequence[object] | None = None) -> int:
        """Execute one statement without a result set."""
        return self._answer(sql, parameters)[1]

    def query(self, sql: str, parameters: Sequence[object] | None = None) -> Rows:
        """Execute one statement with a result set."""
        return self._answer(sql, parameters)[0]

    def value(self, sql: str, parameters: Sequence[object] | None = None) -> Any:
        """Return the first column of the first row."""
        return self.query(sql, parameters)[0][0]


#: What a session is after its settings, by what they are made of.
_PREPARED: dict[tuple[Any, ...], tuple[float, float, str, bool, bool]] = {}


def _prepare_at_once(session: Session, *, options: ConnectionOptions, **given: Any) -> None:
    """Prepare a session in one step in most worlds, by the program's code.

    Settings that are known are not sent again: the server's answers to them are the same.
    """
    model = session._connection.session
    server = model.server
    if server.session_by_statements:
        return _prepare(session, options=options, **given)
    at_once: Any = _AtOnce(session)
    key = (session.role, options.settings, *given.values())
    known = _PREPARED.get(key)
    if known is None or options.unlogged or options.server_uuid not in {"", server.uuid}:
        _prepare(at_once, options=options, **given)
        settings = model.row_wait, model.lock_wait, model.role, model.unchecked, model.repeats
        _PREPARED[key] = settings
        return None
    model.require_life()
    model.row_wait, model.lock_wait, model.role, model.unchecked, model.repeats = known
    server.roles.add(model.role)
    own_sessions.claim(at_once.query, session.id, origin=options.origin, label=options.label)
    return None


setattr(spirit_py.mysql.connect, "_prepare", _prepare_at_once)  # noqa: B010

_RANDOM = random.Random(0)
#: The next one of each length.
_SECRETS: defaultdict[int, Iterator[int]] = defaultdict(lambda: itertools.count(1))


def repeatable(seed: int) -> None:
    """Have the program's random numbers follow from the seed."""
    _RANDOM.seed(seed)
    random.seed(seed)
    _SECRETS.clear()


def _hex(size: int | None = None) -> str:
    """Return another text each time; the same ones in each world, so that its statements repeat."""
    size = size or 32
    return f"{next(_SECRETS[size]):0{2 * size}x}"


def _log(self: Background, error: BaseException) -> None:
    """Note what no server, and no stop, makes a thread of the program end with."""
    expected = (SpiritError, MySQLdb.Error, GreenletExit)
    if not isinstance(error, expected):
        server().caught.append(f"{self._thread.name} failed: {error!r}")


setattr(Background, "_log", _log)  # noqa: B010
setattr(secrets, "token_hex", _hex)  # noqa: B010
setattr(secrets, "randbelow", _RANDOM.randrange)  # noqa: B010
setattr(uuid, "uuid4", lambda: uuid.UUID(int=_RANDOM.getrandbits(128)))  # noqa: B010


def _mapping() -> TableMapping:
    more = [column(name, nullable=True, ordinal=at) for at, name in ((2, "v"), (3, "w"))]
    return mapping((ID, ID), *((one, one) for one in more))


MAPPING = _mapping()
POLICY = LockPolicy(kills=KillPolicy(mode="never", after=30.0), longest_pause=0.5, old=float("inf"))
T: Final = ("s", "t")
NEW: Final = ("s", "_t_new")
OLD: Final = ("s", "_t_old")
# Seconds between two looks for what takes some seconds at most.
setattr(crew, "_LONGEST_LOOK", 0.1)  # noqa: B010
# Tasks join and leave in copies of moments.
setattr(crew, "_SPARE_SECONDS", 0.05)  # noqa: B010
setattr(copier, "_WORTHWHILE_SECONDS", 1e-6)  # noqa: B010
setattr(reception, "_LOOK_AGAIN", 0.02)  # noqa: B010
own_sessions.SLOTS = 32  # type: ignore[misc] # all of them are looked at, at every start


@dataclass(frozen=True, kw_only=True)
class Saved:
    """What a run leaves for the next one, as the checkpoint table has it."""

    position: str
    uncopied: tuple[Any, ...]
    rows: int
    token: str


class Tasks(Unhindered):
    """A pace of so many tasks, in turns: each holds for a chunk, or for some looks."""

    _LOOKS: Final = 6

    def __init__(self, turns: Sequence[int]) -> None:
        super().__init__()
        self.most = max(turns, default=2)
        self._turns = itertools.cycle(turns or [2])
        self._now, self._looks = next(self._turns), 0

    def tasks(self, most: int) -> int:
        """Return the number whose turn it is."""
        self._looks += 1
        if self._looks > self._LOOKS:
            self._turn()
        return min(self._now, most)

    def done(self, *_: object) -> None:
        """Go on to the next number."""
        self._turn()

    def _turn(self) -> None:
        self._now, self._looks = next(self._turns), 0


class Run:
    """One process that migrates the table: from the beginning, or where an earlier one stopped.

    Attributes:
        done: the table is swapped.
        error: why it ended otherwise.
        tasks: how many copy at a time, in turns; empty for two.
        rolling: the comparison has a snapshot for each piece, and no lock.
    """

    def __init__(self, server: Server, tasks: Sequence[int] = (), *, rolling: bool = False) -> None:
        self.server = server
        self._rolling = rolling
        self._pace = Tasks(tasks)
        self.done = False
        self.error = ""
        self.stop = StopSwitch()
        serve(server)

    def main(self) -> None:
        """Lock out others, end what an earlier run left, migrate, clean up."""
        connection = ConnectionOptions(
            host="sim",
            user="u",
            password="p",
            ssl_mode="DISABLED",
            label=run_label([T]),
            # Drawn otherwise, so that the names of locks were others in each world.
            origin="00112233",
        )
        lock = lock_name("migration", *T)
        try:
            with (
                AdvisoryLock(connection, lock, stop=self.stop, purpose="migration of s.t"),
                connect(connection, role="driver") as session,
            ):
                self._begin(connection, session)
        except SpiritError as error:
            self.error = f"{type(error).__name__}: {error.message}"
        else:
            self.done = True

    def _begin(self, connection: ConnectionOptions, session: Session) -> None:
        saved: Saved | None = self.server.notes.get("checkpoint")
        tokens = [saved.token] if saved else []
        end_earlier_sessions(session, connection.label, tokens=tokens)
        if OLD in self.server.tables:
            return
        if saved is None:
            session.execute("world create s._t_new id,v,w,n")
        options = FeedOptions(flush_interval=0.5, wait_timeout=10)
        applier = SqlApplier(connection, sessions=2, batch_rows=3, stop=self.stop)
        source = binlog_source.BinlogSource(connection, options)
        feed = ChangeFeed(source, applier, options=options, stop=self.stop)
        try:
            self._migrate(connection, session, applier, feed, saved)
        except SpiritError as error:
            raise self.stop.cause_of(error) from error
        finally:
            feed.close()
            applier.close()

    def _migrate(
        self,
        connection: ConnectionOptions,
        session: Session,
        applier: SqlApplier,
        feed: ChangeFeed,
        saved: Saved | None,
    ) -> None:
        stop, before = self.stop, CopiedSoFar()
        if saved is None:
            subscription = feed.add_subscription(MAPPING)
            feed.start()
        else:
            before = CopiedSoFar(uncopied=saved.uncopied, rows=saved.rows)
            retrying(stop)(end_earlier_chunks, connection, MAPPING)
            rests = [
                Rest(
                    lower=one.lower,
                    upper=one.upper,
                    keep_up_to=last_copied_key(session, MAPPING, one),
                )
                for one in saved.uncopied
            ]
            subscription = feed.add_subscription(MAPPING, rests=rests)
            feed.start_from_position(saved.position)

        def save() -> None:
            # The position first: what is received after it, a later run receives again.
            position, copied = feed.position(), subscription.copied()
            if position:
                found = Saved(
                    position=position,
                    uncopied=copied.uncopied,
                    rows=before.rows + copied.rows,
                    token=token_of(connection.label),
                )
                notes.ask(lambda writing: writing.execute("world note checkpoint", (found,)))

        notes = RenewedSession(lambda: connect(connection, role="checkpoint"))
        with contextlib.ExitStack() as writing:
            writing.enter_context(contextlib.closing(notes))
            save()
            writing.enter_context(Background("checkpoint", every(0.3, save), failed=lambda _: None))
            if not before.finished:
                self._copy(connection, subscription, before)
            feed.end_watermark_optimization()
            feed.catch_up(lambda _: None)
            self._compare(connection, applier, feed)
            Cutover(
                CutoverPlan(
                    connection=connection,
                    swaps=[Swap.of(MAPPING)],
                    source=feed,
                    limits=CutoverLimits(lock=POLICY, lock_hold=10.0),
                    stop=stop,
                )
            ).run()

    def _copy(
        self, connection: ConnectionOptions, subscription: TableSubscription, before: CopiedSoFar
    ) -> None:
        reader = BoundaryReader(connection, stop=self.stop)
        chunker = LaneChunker(MAPPING, reader.query, ranges=before.uncopied, workers=2, part_rows=2)
        copier = Copier(
            TableCopy(
                mapping=MAPPING,
                connection=connection,
                chunker=chunker,
                query=reader.query,
                subscription=subscription,
                before=before,
            ),
            driver=DriverEngine(self._pace.most),
            spark=None,
            pace=self._pace,
            stop=self.stop,
            options=CopyOptions(),
        )
        copier._meter._sizer.rows = 2  # a table of a few rows is several chunks
        try:
            copier.run()
        finally:
            reader.close()

    def _compare(
        self, connection: ConnectionOptions, applier: SqlApplier, feed: ChangeFeed
    ) -> None:
        """Compare; there must be nothing to repair, so that one pass is all it gets."""
        comparison = Comparison(
            mapping=MAPPING,
            source=connection,
            engine=DriverEngine(2),
            stop=self.stop,
            feed=feed,
            pace=Unhindered(),
            options=ChecksumOptions(
                locking=POLICY, first_rows=2, max_passes=1, rolling=self._rolling
            ),
        )
        Checker(comparison, applier=applier).run()
