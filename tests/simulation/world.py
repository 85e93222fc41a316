"""A small world: one table, a migration of it, clients that write, and what goes wrong.

A world is made of a seed, or of a list of choices; :func:`play` runs it to its end and judges it.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import traceback
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tests.simulation import program
from tests.simulation.primitives import simulated
from tests.simulation.program import T
from tests.simulation.scheduler import Choices, Hang, Scheduler
from tests.simulation.server import UUID, WRITERS, Replaced, RowChange, Server, Session, Unknown
from tests.simulation.statements import REVOKE, execute
from tests.simulation.trouble import DAMAGE, MAY_END, TROUBLES, Scene
from tests.simulation.two_servers import WholeMove
from tests.simulation.whole import WholeRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from random import Random

    from tests.simulation.requests import Operator
    from tests.simulation.reverted import WayBack
    from tests.simulation.server import Name, Row, Table
    from tests.simulation.unique import NewKey

#: How often the operator runs a command again that failed while nothing went wrong.
_PATIENCE: Final = 3
#: The share of worlds in which the command itself runs, which takes three times as long.
_WHOLE: Final = 0.4
#: The share of these whose table has a second unique key.
_UNIQUE: Final = 0.3
_MOVING: Final = 0.3
#: Of whole runs in which nothing else happens.
_DAMAGED: Final = 0.5
#: Of whole runs: a move to another server.
_MOVES: Final = 0.1
#: The share of moves to one server whose rows come from two.
_MERGES: Final = 0.5
#: Of worlds whose comparison has short snapshots.
_ROLLING: Final = 0.6
#: Worlds before this seed are as they were before there were the kinds below.
_OLDER: Final = 5000
#: Of the others: rows are left out of the new table.
_KEEPS: Final = 0.1
#: An operator asks something of the run.
_ASKED: Final = 0.1
#: Of whole runs: a right is taken from the account, and given back.
_REVOKED: Final = 0.1
#: Of the other whole runs: the old table follows, and may be swapped back.
_REVERTED: Final = 0.1
#: Of the other whole runs: a unique key is added.
_NEW_KEY: Final = 0.1
#: For a table lock, of any client: what the lock's limits and a silent holder's come to.
_LONGEST_WAIT: Final = 16.0
#: The share of these in which a DBA, an accident or another application disturbs it.
_TROUBLED: Final = 0.5
#: The share of worlds in which each statement that prepares a session is sent.
_STATEMENTS: Final = 0.2
#: The share of transactions that the feed gets in two pieces, of those with so many events.
_PARTED: Final = 0.2
_SEVERAL: Final = 4
#: Of those of two statements, whose first rows come alone.
_HALVED: Final = 0.6
_TWO_STATEMENTS: Final = 7
#: Of all worlds: the comparison takes its time.
_SLOW: Final = 0.2
#: Of cuts in worlds with kills: behind a late write, with which the process ends.
_WITH_ITS_PROCESS: Final = 0.5
#: So often, once in 5 ms, it is asked whether the statement is sent.
_LOOKS: Final = 400
#: Of a reader's transactions that stay open: they write, too.
_WRITING: Final = 0.5
#: What clients do to a row.
_KINDS: Final = ("insert", "update", "update", "delete")
#: Of two rows: the value of one goes to the other, or one gets the other's key.
_OF_TWO: Final = frozenset({"move", "trade", "key"})
COLUMNS: Final = ("id", "v", "w")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a world is made of.

    Attributes:
        rows: in the table at the beginning.
        clients: sessions that write.
        writes: transactions of each client.
        stalls: the share of commits that stall.
        late: the share of the binlog's packets that are under way for long.
        kills: the process is killed, and started again.
        crashes: the server crashes.
        cuts: connections are cut.
        whole: the command itself runs, not only its parts.
        readers: sessions that read, in transactions of up to half a minute.
        xa: the share of transactions that are prepared, and decided later.
        unique: the column ``v`` has a unique key, whose values move from row to row.
        troubles: of :data:`tests.simulation.trouble.TROUBLES`.
        statements: each session is prepared statement by statement.
        tasks: how many copy at a time, in turns; empty for two.
        rolling: the comparison has a snapshot for each piece, and no lock.
        moves: the table goes to so many other servers; 0: it stays.
        merges: its rows come from so many servers, to one.
        keeps: the expression of the rows that the new table has; empty for all.
        keeps_old: the old table stays.
        alters: a column is added; the table is rebuilt otherwise.
        requests: what an operator asks of the runs.
        deferred: the swap waits for an operator.
        back: the old table follows the new one, and what is done with that. It is not part of the
            text of a plan, of which other things are drawn.
        new_key: the change adds a unique key to ``v``; no part of the text either.
    """

    rows: int = 6
    clients: int = 2
    writes: int = 4
    stalls: float = 0.2
    late: float = 0.2
    kills: int = 0
    crashes: int = 0
    cuts: int = 0
    whole: bool = False
    troubles: tuple[str, ...] = ()
    statements: bool = False
    readers: int = 0
    xa: float = 0.0
    unique: bool = False
    tasks: tuple[int, ...] = ()
    rolling: bool = False
    moves: int = 0
    merges: int = 1
    keeps: str = ""
    keeps_old: bool = False
    alters: bool = True
    requests: tuple[str, ...] = ()
    deferred: bool = False
    back: WayBack | None = field(default=None, repr=False)
    new_key: NewKey | None = field(default=None, repr=False)

    @property
    def faults(self) -> int:
        """How many things happen that may end a run with an error."""
        return self.kills + self.crashes + self.cuts

    def of_command(self) -> Plan:
        """Return it for a world in which the command itself runs, on one server."""
        return replace(self, whole=True, moves=0, merges=1, tasks=())


def drawn(seed: int, kind: str = "") -> Plan:
    """Return what the world of a seed is made of; ``kind``: one of the options, or any."""
    dice = random.Random(seed)
    plan = Plan(
        rows=dice.randrange(1, 9),
        clients=dice.randrange(1, 4),
        writes=dice.randrange(1, 7),
        stalls=dice.choice((0.0, 0.2, 0.5)),
        late=dice.choice((0.0, 0.2, 0.5)),
        kills=dice.choice((0, 0, 0, 1, 2)),
        crashes=dice.choice((0, 0, 0, 0, 1)),
        cuts=dice.choice((0, 0, 0, 1, 3)),
        whole=dice.random() < _WHOLE,
        statements=dice.random() < _STATEMENTS,
        readers=dice.choice((0, 0, 1, 2)),
        xa=dice.choice((0.0, 0.0, 0.5)),
    )
    plan = replace(plan, unique=plan.whole and dice.random() < _UNIQUE)
    # Drawn apart: the other worlds stay as they were.
    turns = random.Random(f"tasks of {seed}")
    if not plan.whole and turns.random() < _MOVING:
        plan = replace(plan, tasks=(1, *(turns.randrange(1, 4) for _ in range(4))))
    if random.Random(f"comparison of {seed}").random() < _ROLLING:
        plan = replace(plan, rolling=True)
    if plan.whole and dice.random() < _TROUBLED:
        troubles = tuple(dice.sample(sorted(MAY_END), dice.choice((1, 1, 2))))
        # What a crash takes back of an XA transaction is not modelled.
        plan = replace(plan, troubles=troubles, xa=0.0)
    faultless = plan.whole and not (plan.faults or plan.troubles)
    if faultless and random.Random(f"damage of {seed}").random() < _DAMAGED:
        plan = replace(plan, troubles=(DAMAGE,))
    if kind == "moves" or (plan.whole and random.Random(f"move of {seed}").random() < _MOVES):
        several = random.Random(f"targets of {seed}").choice((1, 2))
        plan = replace(plan, moves=several, whole=True, tasks=())
        plan = replace(plan, troubles=(), readers=0, xa=0.0, unique=False)
        if several == 1 and random.Random(f"sources of {seed}").random() < _MERGES:
            plan = replace(plan, merges=2)
    share = random.Random(f"kept rows in {seed}").random()
    if kind == "keeps" or (seed >= _OLDER and not plan.moves and share < _KEEPS):
        from tests.simulation.kept import kept_plan

        plan = kept_plan(plan, seed)
    share = random.Random(f"requests in {seed}").random()
    if kind == "requests" or (seed >= _OLDER and not plan.moves and share < _ASKED):
        from tests.simulation.requests import asked_plan

        plan = asked_plan(plan, seed)
    share = random.Random(f"rights in {seed}").random()
    taken = plan.whole and not plan.moves and share < _REVOKED
    if kind == "revokes" or (seed >= _OLDER and taken):
        plan = replace(plan.of_command(), xa=0.0, troubles=(*plan.troubles, REVOKE))
    share = random.Random(f"reverts in {seed}").random()
    other = plan.whole and not (plan.moves or plan.keeps or plan.requests or taken)
    if kind == "reverts" or (seed >= _OLDER and other and share < _REVERTED):
        from tests.simulation.reverted import reverted_plan

        plan = reverted_plan(plan, seed)
    share = random.Random(f"unique keys in {seed}").random()
    other = other and plan.back is None and not plan.unique
    if kind == "uniques" or (seed >= _OLDER and other and share < _NEW_KEY):
        from tests.simulation.unique import unique_plan

        plan = unique_plan(plan, seed)
    return plan


@dataclass
class Outcome:
    """How a world ended.

    Attributes:
        wrong: what is not as it must be; empty where all is well.
        choices: repeat it exactly.
        story: what happened, where it was asked for.
        happened: what others did to the run, and accidents, as far as they had an effect.
    """

    wrong: str = ""
    choices: dict[int, int] = field(default_factory=dict)
    story: Sequence[str] = ()
    steps: int = 0
    swapped: bool = False
    error: str = ""
    happened: frozenset[str] = frozenset()


def play(
    seed: int | None,
    plan: Plan = Plan(),
    *,
    given: Mapping[int, int] | None = None,
    telling: bool = False,
    making: Callable[[Scheduler, Plan, random.Random], World] | None = None,
) -> Outcome:
    """Run a world to its end, and judge it; ``making`` makes one of another class."""
    choices = Choices(seed, given)
    scheduler = Scheduler(choices, telling=telling)
    program.repeatable(seed or 0)
    with simulated(scheduler):
        world = (making or _class_of(plan))(scheduler, plan, random.Random(seed or 0))
        try:
            outcome = world.run()
            outcome.happened = frozenset().union(*(one.happened for one in world.servers))
        except (Hang, Unknown) as error:
            outcome = Outcome(wrong=f"{type(error).__name__}: {error}")
        finally:
            scheduler.close()
    outcome.choices = choices.made
    outcome.story = scheduler.story
    outcome.steps = scheduler.steps
    return outcome


def _class_of(plan: Plan) -> type[World]:
    from tests.simulation.kept import KeptWorld

    if plan.back is not None:
        from tests.simulation.reverted import RevertedWorld

        return RevertedWorld
    if plan.new_key is not None:
        from tests.simulation.unique import UniqueWorld

        return UniqueWorld
    if plan.moves:
        return MoveWorld
    return KeptWorld if plan.keeps else World


def visible(first: dict[Any, Row], server: Server, numbered: int | None = None) -> dict[Any, Row]:
    """Return the rows that all visible changes of the table on a server make of its first ones.

    ``numbered``: those of the table with this number, whatever its name was.
    """
    expected = dict(first)
    for _, change in server.history:
        if change.table == T and isinstance(change, Replaced):
            expected = dict(change.rows)
        elif change.table == T and isinstance(change, RowChange):
            if numbered not in {None, change.number}:
                continue
            if change.before is not None:
                expected.pop(change.before[0], None)
            if change.after is not None:
                expected[change.after[0]] = change.after
    return expected


def wrong_rows(table: Table, expected: dict[Any, Row]) -> str:
    """Return the rows of a table that are not as they must be; empty for none."""
    width = len(table.columns)
    wanted = {key: (*row[:3], *([None] * (width - 3))) for key, row in expected.items()}
    wrong = {
        key: (wanted.get(key), table.rows.get(key))
        for key in wanted.keys() | table.rows.keys()
        if wanted.get(key) != table.rows.get(key)
    }
    return f"rows differ, (expected, found) by key: {wrong}" if wrong else ""


def waited(server: Server) -> str:
    """Return how long a client waited for a table lock, if it was too long (R23)."""
    seconds = server.longest_wait
    return f"a client waited {seconds:.1f} s for a table lock" if seconds > _LONGEST_WAIT else ""


def left_on(server: Server) -> str:
    """Return the sessions and named locks that are left; empty for none."""
    if left := [s for s in server.sessions.values() if s.alive]:
        return f"sessions are left: {[(s.number, s.role) for s in left]}"
    return f"named locks are left: {server.named}" if server.named else ""


@dataclass
class World:
    """The server, its clients and the program."""

    scheduler: Scheduler
    plan: Plan
    random: random.Random
    server: Server = field(init=False)
    last: program.Run | WholeRun = field(init=False)
    #: Nothing goes wrong from now on.
    calm: bool = True
    #: Sessions of clients that the program has killed.
    strangers: list[int] = field(default_factory=list)
    #: Processes that were killed, and that the server still has sessions of.
    unnoticed: int = 0
    #: A state that never was, as a reader has seen it.
    misread: str = ""
    #: Who asks things of the runs.
    asking: Operator | None = None
    #: The command is not run again.
    ended: bool = False
    #: The share of a client's turns that are transactions of two statements.
    _transactions: ClassVar[float] = 0.3
    #: Seconds before each of its turns.
    _pauses: tuple[float, ...] = (0.0, 0.001, 0.02, 0.2, 1.0)
    #: Errors of lost connections, of values that are there, and of locks that other clients have.
    _excused: ClassVar[frozenset[int]] = frozenset({2003, 2006, 2013, 1062, 1205, 1213})

    def __post_init__(self) -> None:
        server = self.server = Server(self.scheduler)
        table = server.create(T, COLUMNS, unique=(1,) if self.plan.unique else ())
        keys = range(1, 2 * self.plan.rows, 2)
        table.rows = {key: (key, -key if self.plan.unique else 0, 0) for key in keys}
        self._first = dict(table.rows)
        server.applications = frozenset({T})
        server.forgives = "log off" in self.plan.troubles
        server.stall = self._stall
        server.latency = self._latency
        # Drawn apart: the other worlds stay as they were.
        self._parts = random.Random(f"parts of transactions of {self.plan}")
        server.parting = self._parting
        self._slow = random.Random(f"slow comparison of {self.plan}")
        if self._slow.random() < _SLOW:
            server.reading = partial(self._slow.choice, (0.0, 0.1, 0.5, 2.0))
            # Or they have all written before it begins.
            self._pauses = (0.0, 0.2, 1.0, 2.0, 4.0)
        server.session_by_statements = self.plan.statements

    @property
    def servers(self) -> list[Server]:
        """All servers of the world."""
        return [self.server]

    def _stall(self) -> float:
        if self.random.random() < self.plan.stalls:
            return self.random.choice((0.01, 0.3, 2.0))
        return 0.0

    def _latency(self) -> float:
        """Return how long a packet of the binlog is under way."""
        if self.random.random() < self.plan.late:
            return self.random.choice((0.002, 0.1, 1.0, 4.0))
        return 0.0

    def _parting(self, events: int) -> tuple[int, float]:
        """Return how many events of a transaction come at once, and when the others do."""
        two = events >= _TWO_STATEMENTS
        if events < _SEVERAL or self._parts.random() >= (_HALVED if two else _PARTED):
            return events, 0.0
        late = (0.0, 0.01, 0.3, 1.0, *([-1.0, -1.0] if self.plan.cuts else []))
        sent = self._parts.randrange(4, events - 1) if two else self._parts.randrange(1, events)
        return sent, self._parts.choice(late)

    def run(self) -> Outcome:
        """Play to the end."""
        scheduler = self.scheduler
        operator = scheduler.spawn("operator", self._operate, process="operator")
        everyone = [operator]
        if self.plan.crashes + self.plan.cuts + len(self.plan.troubles):
            everyone.append(scheduler.spawn("chaos", self._disturb, process="chaos"))
        for number in range(self.plan.clients):
            body = partial(self._client, number)
            everyone.append(scheduler.spawn(f"client{number}", body, process="clients"))
        for number in range(self.plan.readers):
            body = partial(self._reader, number)
            everyone.append(scheduler.spawn(f"reader{number}", body, process="clients"))
        if self.plan.requests:
            self.asking = self._asker()
            everyone.append(scheduler.spawn("ctl", self.asking.work, process="ctl"))
        scheduler.run(everyone)
        for one in everyone:
            if one.failure is not None:
                text = "".join(traceback.format_exception(one.failure))
                return Outcome(wrong=f"{one.name} failed: {text}")
        # What the server still executes for those who are gone.
        scheduler.run_out(60.0)
        caught = [what for one in self.servers for what in one.caught]
        return Outcome(wrong=caught[0], error=self.last.error) if caught else self._judge()

    def _asker(self) -> Operator:
        # Late, because the program is imported with it.
        from tests.simulation.requests import Operator

        return Operator(
            self.server,
            self.plan.requests,
            random.Random(f"requests of {self.plan}"),
            table=lambda: self.server.tables[T].number if T in self.server.tables else 0,
            ended=self._is_done,
            running=lambda: getattr(self, "last", None),
        )

    def _is_done(self) -> bool:
        """Whether no process that may be asked for something works, or begins."""
        return self.ended

    def _operate(self) -> None:
        """Run the command, until it need not be run again."""
        try:
            self._run_again_and_again()
        finally:
            self.ended = True

    def _run_again_and_again(self) -> None:
        """Run the command, and run it again when it has ended without a swap."""
        plan, scheduler = self.plan, self.scheduler
        calm = 0
        # Clients write already when it begins.
        scheduler.sleep(self.random.choice((0.0, 0.001, 0.02, 0.2, 0.5)))
        for number in itertools.count():
            if number and self._run_no_more():
                return
            run = self.last = self._command()
            task = scheduler.spawn(f"run{number}", run.main, process=run)
            if number < plan.kills:
                seconds = self.random.choice((0.001, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0))
                scheduler.join(task, seconds * self.random.random())
                if not (task.ended or task.doomed):
                    self._kill(run)
            if not scheduler.join(task):
                # Killed behind a late statement.
                continue
            if task.failure is not None:
                raise task.failure
            self._hear(run)
            if run.done or calm >= _PATIENCE:
                return
            up = all(one.up for one in self.servers)
            asked = self.asking and self.asking.see_end(
                run, faultless=not (plan.faults or plan.troubles)
            )
            calm += 1 if up and self.calm and not self.unnoticed and not asked else 0
            # Such as an advisory lock whose owner's end the server has not noticed yet.
            scheduler.tell(f"the command ended: {run.error}")
            scheduler.sleep(5.0)

    def _hear(self, run: program.Run | WholeRun) -> None:
        """Note an error of a run, though the next one may end well, where nothing is amiss."""
        plan = self.plan
        differs = "StillDifferent" in run.error and not plan.troubles
        if differs or (run.error and not (plan.faults or plan.troubles or plan.requests)):
            self.server.caught.append(f"a run failed, and nothing went wrong: {run.error}")

    def _run_no_more(self) -> bool:
        """Whether somebody else carries on what a killed process has begun."""
        return False

    def _command(self) -> program.Run | WholeRun:
        if self.plan.whole:
            return WholeRun(
                self.server,
                repairs=bool(self.plan.troubles),
                rolling=self.plan.rolling,
                choices=self._choices(),
            )
        return program.Run(self.server, self.plan.tasks, rolling=self.plan.rolling)

    def _choices(self) -> dict[str, Any]:
        """Return what of the configuration is this world's own."""
        return {"defer_cutover": True} if self.plan.deferred else {}

    def _disturb(self) -> None:
        """Cut connections, kill sessions and crash the server while the command works."""
        self.calm = False
        # Drawn apart: the other worlds stay as they were.
        behind = random.Random(f"cuts of {self.plan}")
        what = ["crash"] * self.plan.crashes + ["cut", "kill"] * self.plan.cuts
        what += self.plan.troubles
        self.random.shuffle(what)
        for each in what:
            self.scheduler.sleep(
                self.random.choice((0.01, 0.1, 0.5, 1.0, 2.0)) * self.random.random()
            )
            # No choice where there is one.
            server = self.random.choice(self.servers) if self.plan.moves else self.server
            sessions = [one for one in server.sessions.values() if one.role]
            if each in TROUBLES:
                Scene(self.server, self.random, self._connected).disturb(each, TROUBLES[each])
            elif each == "crash":
                server.crash()
                self.scheduler.sleep(self.random.choice((0.0, 1.0, 20.0)))
                server.restart()
            elif sessions:
                victim = self.random.choice(sessions)
                self.scheduler.tell(f"{each} {victim.number} ({victim.role})")
                if each == "cut" and self.plan.kills and behind.random() < _WITH_ITS_PROCESS:
                    self._kill_behind_write(behind)
                elif each == "cut" and behind.random() < 0.5:
                    # Rather one that writes rows: a late statement of it is the worst.
                    writers = [one for one in sessions if one.role in WRITERS]
                    late = behind.choice(writers) if writers else victim
                    late.severed = behind.choice((0.0, 0.1, 1.0, 4.0))
                elif each == "cut":
                    server.cut(victim)
                else:
                    victim.disturbed = True
                    server.happened.add("KILL")
                    server.kill(victim.number)
        self.calm = True

    def _kill_behind_write(self, dice: Random) -> None:
        """Kill the process as soon as it has sent changes, which the server carries out late."""
        late: Session | None = None
        for _ in range(_LOOKS):
            run = self.last
            if late is None or not late.alive:
                sessions = [one for server in self.servers for one in server.sessions.values()]
                writers = [one for one in sessions if one.role == "apply"]
                if late := next((one for one in writers if one.process is run), None):
                    late.severed = dice.choice((0.1, 1.0, 4.0))
            elif late.severed is None:
                self._kill(run)
                return
            self.scheduler.sleep(0.005)

    def _kill(self, run: object) -> None:
        """End the process with SIGKILL; the server notices after a while."""
        self.server.happened.add("kill of the process")
        self.scheduler.tell("the process is killed")
        self.scheduler.kill(run)
        delay = self.random.choice((0.0, 0.0, 0.01, 1.0, 10.0, 40.0))

        def notice() -> None:
            waits = {s.wait_timeout for one in self.servers for s in one.sessions.values()}
            for seconds in sorted(wait for wait in waits if wait < delay):
                self.scheduler.sleep(max(0.0, killed + seconds - self.scheduler.now))
                for one in self.servers:
                    one.lose(run, seconds)
            self.scheduler.sleep(max(0.0, killed + delay - self.scheduler.now))
            for one in self.servers:
                one.lose(run)
            self.unnoticed -= 1

        killed = self.scheduler.now
        self.unnoticed += 1

        self.scheduler.spawn("the server", notice, process="server")

    def _connected(self, name: str) -> Session:
        """Connect as a client, as soon as the server takes connections."""
        while not self.server.up:
            self.server.await_start()
        session = self.server.connect(name)
        session.row_wait, session.lock_wait = 5.0, 60.0
        return session

    def _client(self, number: int) -> None:
        session = self._connected(f"client{number}")
        keys = 2 * self.plan.rows + 1
        for turn in range(self.plan.writes):
            self.scheduler.sleep(self.random.choice(self._pauses))
            session = self._followed(session)
            several = self.random.random() < self._transactions
            with self._excusing(session):
                if several:
                    execute(session, "BEGIN", ())
                for place in range(2 if several else 1):
                    key = self._key(number, self.random.randrange(1, keys))
                    kind = self.random.choice(self.kinds)
                    values = f"{key}"
                    if kind != "delete":
                        values += f",{self._value(number, turn, place)}"
                    if kind in _OF_TWO:
                        values = f"{key},{self.random.randrange(1, keys)}"
                    elif kind == "null":
                        kind, values = "update", f"{key},NULL"
                    execute(session, f"client {kind} s.t {values}", ())
                    self.scheduler.tell(f"{kind} {values}")
                if several and self.random.random() < self.plan.xa:
                    self._prepare(session, f"x{number}t{turn}")
                elif several:
                    if self.random.random() < 0.2:
                        execute(session, "ROLLBACK", ())
                    else:
                        execute(session, "COMMIT", ())
            if session.alive and session.open:
                session.server.rollback(session)
            if session.killed and not session.disturbed:
                self.strangers.append(session.number)
        session.server.end(session)

    @contextlib.contextmanager
    def _excusing(self, session: Session, *more: int) -> Iterator[None]:
        """Pass over what accidents and other clients do to a client; anything else is wrong."""
        try:
            yield
        except program.CLIENT_ERRORS as error:
            if error.args[0] not in {*self._excused, *more}:
                self.server.caught.append(f"{session.client} has met error {error}")

    @property
    def kinds(self) -> Sequence[str]:
        """What clients do to a row."""
        return (*_KINDS, "move") if self.plan.unique else _KINDS

    def _value(self, number: int, turn: int, _place: int) -> int:
        """Return what a client writes into a row, in its turn and place of a transaction."""
        return 100 * number + turn + 1

    def _key(self, _client: int, key: int) -> int:
        """Return the key of a row that a client may write, for one that was drawn."""
        return key

    def _followed(self, session: Session) -> Session:
        """Return the session, or a new one where it has ended."""
        return session if session.alive else self._connected(session.client)

    def _prepare(self, session: Session, xid: str) -> None:
        """Prepare a transaction, and decide it after a while, perhaps after a crash."""
        # Where its answer is lost it may be prepared: it is decided all the same.
        with self._excusing(session):
            execute(session, f"client prepare {xid}", ())
            self.scheduler.tell(f"prepares {xid}")
        self.scheduler.sleep(self.random.choice((0.0, 0.05, 1.0, 4.0)))
        decided = self.random.choice(("COMMIT", "COMMIT", "ROLLBACK"))
        while xid in self.server.prepared:
            deciding = self._connected("decides")
            # Or it is decided already: the answer was lost.
            with self._excusing(deciding, 1397):
                execute(deciding, f"client decide {xid} {decided}", ())
                self.scheduler.tell(f"XA {decided} of {xid}")
            self.server.end(deciding)
            self.scheduler.sleep(0.2)

    def _reader(self, number: int) -> None:
        """Read the table at once, in a snapshot, or in a transaction that stays open.

        The transaction may write a row, so that a lock that waits for writers waits for it, too.
        """
        # Drawn apart: the other worlds stay as they were.
        dice = random.Random(f"open transactions of reader {number} of {self.plan}")
        for _ in range(self.random.randrange(1, 4)):
            self.scheduler.sleep(self.random.choice((0.0, 0.02, 0.2, 1.0, 2.0)))
            session = self._connected(f"reader{number}")
            kind = self.random.choice(("read", "snapshot", "snapshot", "long"))
            # Its snapshot is from before the swap.
            with self._excusing(session, 1412):
                if kind == "read":
                    self._read(session, None)
                elif kind == "snapshot":
                    execute(session, "START TRANSACTION WITH CONSISTENT SNAPSHOT", ())
                    then = self._truth()
                    self.scheduler.sleep(self.random.choice((0.01, 0.05, 0.5, 3.0)))
                    self._read(session, then)
                    execute(session, "COMMIT", ())
                else:
                    execute(session, "BEGIN", ())
                    self._read(session, None)
                    if dice.random() < _WRITING:
                        key, value = dice.randrange(1, 2 * self.plan.rows + 1), 800 + number
                        execute(session, f"client update s.t {key},{value}", ())
                    self.scheduler.sleep(self.random.choice((0.1, 0.9, 4.0, 15.0)))
                    execute(session, "COMMIT", ())
            if session.killed and not session.disturbed:
                self.strangers.append(session.number)
            self.server.end(session)

    def _read(self, session: Session, then: dict[Any, Row] | None) -> None:
        """Compare what is read with the table as it was then, or is now."""
        rows, _ = execute(session, "client read s.t", ())
        found = {row[0]: row[:3] for row in rows}
        states = [self._truth()] if then is None else self._states(then)
        expected = [{key: row[:3] for key, row in one.items()} for one in states]
        if found not in expected and not self.misread:
            self.misread = f"{session.client} has read {found}, and there was {expected[0]}"

    def _states(self, then: dict[Any, Row]) -> list[dict[Any, Row]]:
        """Return what a snapshot may read that was taken when the table was so."""
        return [then]

    def _judge(self) -> Outcome:
        """Compare the table with what became visible of it, and with what the command says."""
        server, run = self.server, self.last
        table = server.tables.get(T)
        if table is None:
            return Outcome(wrong=f"the table is gone: {sorted(server.tables)}", error=run.error)
        outcome = Outcome(swapped=self._swapped(table), error=run.error)
        outcome.wrong = (
            self._wrong_rows(table)
            or self.misread
            or self._waited(run)
            or (self.asking.wrong if self.asking is not None else "")
            or self._wrong_word(run, swapped=outcome.swapped)
            or self._left_behind(run)
        )
        return outcome

    def _swapped(self, table: Table) -> bool:
        """Whether the new table is in the place of the old one."""
        return "n" in table.columns

    def _wrong_rows(self, table: Table) -> str:
        """Compare the table with its first rows and all that was visible of it since."""
        return wrong_rows(table, self._truth())

    def _truth(self) -> dict[Any, Row]:
        """Return the rows that all visible changes of the table make of its first ones."""
        return visible(self._first, self.server)

    def _waited(self, run: program.Run | WholeRun) -> str:
        """Return how the program kept clients waiting (R23)."""
        if isinstance(run, WholeRun) and self.server.rude:
            return f"a lock was asked for behind an old transaction: {self.server.rude[0]}"
        return "" if self.plan.troubles else waited(self.server)

    def _wrong_word(self, run: program.Run | WholeRun, *, swapped: bool) -> str:
        """Return where the command says what is not."""
        ended = MAY_END.intersection(self.plan.troubles)
        # Killed behind its swap, before it forgot the migration: the table was rebuilt since then.
        rebuilt = "is not the table that this migration made" in run.error
        if run.error and ended and (rebuilt or (not swapped and _is_for_good(run))):
            return ""
        # Killed behind its end, or without the right to drop: it is not to change the table twice.
        if swapped and self._old_stays() and "an earlier change is done" in run.error:
            return ""
        if run.error:
            return f"the last run failed, and nothing went wrong in it: {run.error}"
        return "" if swapped else "not swapped, without an error"

    def _old_stays(self) -> bool:
        """Whether an old table may stay behind the end of a run."""
        return REVOKE in self.plan.troubles

    def _left_behind(self, run: program.Run | WholeRun) -> str:
        """Return what the program leaves on the server, or does to others."""
        server = self.server
        if self.strangers:
            return f"sessions of clients were killed: {self.strangers}"
        if found := left_on(server):
            return found
        if isinstance(run, WholeRun) and not run.error:
            # What could not be dropped is told, and is the operator's.
            told = "checkpoint table _t_chkpnt could not be dropped"
            theirs = {("s", "_t_chkpnt")} if told in " ".join(run.reporter.warned) else set()
            if self.plan.crashes:
                # Without its server at its end it leaves its requests to spirit-py cleanup.
                theirs.add(("s", "_t_ctl"))
            if not self._may_stay(set(server.tables) - theirs):
                return f"tables are left: {sorted(server.tables)}"
        return ""

    def _may_stay(self, tables: set[Name]) -> bool:
        if REVOKE in self.plan.troubles and ("s", "_t_old") in tables:
            # A run without the right to drop it says so; its proofs stay for `cleanup`.
            return tables <= {T, *(("s", f"_t_{name}") for name in ("old", "chkpnt", "ctl"))}
        return tables == self._staying()

    def _staying(self) -> set[Name]:
        """Return the tables that a migration leaves."""
        return {T}


#: Of what an operator is to look at before anything goes on.
_BEGUN: Final = "the swap of s.t was begun by an earlier run, and may have been undone by hand"
_FOR_GOOD: Final = frozenset({"schema-changed", "cannot-resume"})


def _is_for_good(run: program.Run | WholeRun) -> bool:
    """Whether a run refuses for good after a trouble, as it may only behind a swap's beginning."""
    if not isinstance(run, WholeRun) or run.failure is None:
        return False
    told = _BEGUN in " ".join([run.error, *run.reporter.warned])
    return told and run.failure.error_code in _FOR_GOOD


_MOVED: Final = "the tables are moved already"


class MoveWorld(World):
    """Several servers: the table goes from some to others, and its clients follow it.

    With several targets a row goes to that of its ``v``, and may change it. With several sources a
    row is on that of its ``id``, and a client writes the rows of one.
    """

    theirs: list[Server]
    ours: list[Server]
    #: Between the RENAME and the way to the target the table is not there.
    _excused: ClassVar[frozenset[int]] = World._excused | {1146}

    def __post_init__(self) -> None:
        super().__post_init__()
        self.theirs = [self._another(number) for number in range(self.plan.moves)]
        more = range(self.plan.moves, self.plan.moves + self.plan.merges - 1)
        self.ours = [self.server, *map(self._another, more)]
        if len(self.ours) == 1:
            return
        for number, one in enumerate(self.ours):
            table = self.server.tables[T] if one is self.server else one.create(T, COLUMNS)
            table.rows = {
                key: row for key, row in self._first.items() if key % len(self.ours) == number
            }

    def _another(self, number: int) -> Server:
        made = Server(self.scheduler, uuid=f"{2 + number}{UUID[1:]}")
        made.applications = frozenset({T})
        made.stall, made.latency = self._stall, self._latency
        made.parting = self._parting
        made.session_by_statements = self.plan.statements
        return made

    @property
    def servers(self) -> list[Server]:
        """The sources and the targets."""
        return [*self.ours, *self.theirs]

    @property
    def _moved(self) -> bool:
        return not any(T in one.tables for one in self.ours)

    def _home(self, client: str) -> Server:
        """Return where a client finds its rows: on the source, until all sources are left."""
        if self._moved:
            return self.theirs[0]
        return self.ours[int(client[-1]) % len(self.ours)] if self.plan.merges > 1 else self.server

    def _key(self, client: int, key: int) -> int:
        several = len(self.ours)
        return key + (client - key) % several

    def _command(self) -> WholeMove:
        return WholeMove(self.ours, self.theirs, rolling=self.plan.rolling)

    def _connected(self, name: str) -> Session:
        while not self._home(name).up:
            self._home(name).await_start()
        session = self._home(name).connect(name)
        session.row_wait, session.lock_wait = 5.0, 60.0
        return session

    def _followed(self, session: Session) -> Session:
        if session.alive and session.server is not self._home(session.client):
            session.server.end(session)
        return super()._followed(session)

    def _judge(self) -> Outcome:
        """Compare the table where it is now with what became visible of it on all servers."""
        moved, run = self._moved, self.last
        outcome = Outcome(swapped=moved, error=run.error)
        homes = self.theirs if moved else self.ours
        tables = [one.tables.get(T) for one in homes]
        outcome.wrong = (
            next(filter(None, map(self._wrong_in, range(len(tables)), tables)), "")
            or self._waited(run)
            or self._wrong_word(run, swapped=moved)
            or self._left_behind(run)
        )
        return outcome

    def _hear(self, run: program.Run | WholeRun) -> None:
        """Pass over a switch that a stalled commit on one of the servers has prevented."""

    def _wrong_in(self, number: int, table: Table | None) -> str:
        if table is None:
            return f"the table is gone: {[sorted(one.tables) for one in self.servers]}"
        truth = self._first
        for one in self.ours:
            truth = visible(truth, one)
        if not self._moved and len(self.ours) > 1:
            truth = {key: row for key, row in truth.items() if key % len(self.ours) == number}
        if self._moved and len(self.theirs) > 1:
            truth = {key: row for key, row in truth.items() if row[1] % len(self.theirs) == number}
        if self._moved:
            truth = visible(truth, self.theirs[number])
        return wrong_rows(table, truth)

    def _waited(self, run: program.Run | WholeRun) -> str:
        # Whether a source that has crashed has made its RENAME is waited for under the other lock.
        if self.plan.crashes:
            return ""
        return next(filter(None, (waited(one) for one in self.servers)), "")

    def _wrong_word(self, run: program.Run | WholeRun, *, swapped: bool) -> str:
        """Return where the command says what is not; once more behind its end it says so."""
        return "" if swapped and _MOVED in run.error else super()._wrong_word(run, swapped=swapped)

    def _left_behind(self, run: program.Run | WholeRun) -> str:
        if self.strangers:
            return f"sessions of clients were killed: {self.strangers}"
        # Killed, or without its server, behind its end it leaves its requests to spirit-py cleanup.
        late = _MOVED in run.error or self.plan.crashes
        kept = {"_t_moved", "_t_chkpnt", *(["_t_ctl"] if late else [])}
        out = {("s", name) for name in kept}
        expected = [*(out for _ in self.ours), *({T} for _ in self.theirs)]
        ended = not run.error or _MOVED in run.error
        for server, tables in zip(self.servers, expected, strict=True):
            if found := left_on(server):
                return found
            if ended and not set(server.tables) <= tables:
                return f"tables are left: {sorted(server.tables)}"
        return ""
