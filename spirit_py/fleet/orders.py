"""``spirit-py ctl --fleet``: order something for all servers of a fleet.

An order is a row of each server's record, which the coordinator and the processes of the servers
read; migrations at work are asked one by one, as without a fleet. So it works from any machine,
and a coordinator that begins later obeys it, too.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from functools import partial, reduce
from typing import TYPE_CHECKING, Final

from spirit_py.classes import dataclass, field, replace
from spirit_py.codes import ErrorCode
from spirit_py.command_config import MOST_SERVERS, FleetOrders, agreed, last_number
from spirit_py.errors import MigrationFailure, Refusal, SpiritError, UsageFault
from spirit_py.fleet.planning import LOOKING, allowed_files
from spirit_py.fleet.records import (
    FleetMember,
    ServerRecords,
    leave_out,
    look_at,
    looked_at,
    rows_of,
    sessions_on,
)
from spirit_py.locks.named import take_named_lock
from spirit_py.migration.control.command import control
from spirit_py.migration.control.subject import CLEANUP, Verb
from spirit_py.table.names import lock_name
from spirit_py.threads import side_by_side
from spirit_py.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from spirit_py.fleet.records import FleetRecord
    from spirit_py.table.names import Name

    Say = Callable[[str], None]
    _AtWork = tuple[ServerRecords, Name]

AT_ONCE: Final = "servers-at-once"
"""The setting of a fleet; others are of each migration."""
#: For which another command that orders something is waited for.
_TURN_SECONDS: Final = 60
#: For which a migration that has just begun is waited for until it takes requests.
_BEGINNING_SECONDS: Final = 30.0
_AGAIN_SECONDS: Final = 1.0
_QUIET_LOOKS: Final = 2
_WRITES: Final = 20
_NAMED: Final = 5
#: Of a number on the command line at most.
_DIGITS: Final = 9


def order_fleet(
    members: Sequence[FleetMember],
    *,
    table: str,
    verb: str,
    arguments: Mapping[str, str],
    say: Say,
) -> None:
    """Order one thing for all servers of a fleet that have begun; say what was done on each.

    ``table``: of the change that is meant, where there are several. Refusal where nothing of a
    fleet is there, or of several; another error, with all lines said before, where a server could
    not be asked.
    """
    with contextlib.ExitStack() as stack:
        parts, begun = _in_turn(stack, members, table, say)
        given, fleet = dict(arguments), begun[0].records[0].fleet
        seen = rows_of(begun, fleet)
        away = sum(one.error is not None for one in parts)
        orders = _after(_latest(seen, away), verb, given)
        # On others this command has no lock. The coordinator passes an order on to them.
        asked = [one for one in parts if one.error is None]
        # Those that are asked to drop their copies must be alive for that.
        first = replace(orders, aborted=False, paused=True) if CLEANUP in given else orders
        begun = _written(asked, first, verb, table)
        listed = FleetOrders(
            members=tuple(one.name for one in members),
            places={part.place: part.member.name for part in parts if part.identity},
        )
        all_members = reduce(FleetOrders.joined, seen, listed).members
        if absent := sorted({*all_members} - {*listed.members}):
            said = f"{counted(len(absent), 'server')} of this change, {', '.join(absent[:_NAMED])}"
            say(f"{said}: not in this list, so that migrations there are not asked")
        have_it = [one for one in begun if one.error is None]
        others = absent or away or len(have_it) < len(begun)
        lone = bool(orders.number and others) and len(rows_of(have_it, fleet)) == 1
        if orders.number and have_it and not lone:
            say(_said(verb, orders))
        if not (verb == Verb.SET and not given):
            asking = _Asking(table=table, verb=verb, given=given, orders=first, say=say)
            asking.all(begun)
        if first != orders:
            _write(begun, replace(orders, number=orders.number + 1), verb)
        if lone:
            have_it[0].error = have_it[0].error or _OF_ONE
    if verb == Verb.ABORT and not any(one.coordinated for part in begun for one in part.records):
        say("no process coordinates this change now: nothing begins before its command is run")
    _raise_failures(parts, say)


def _in_turn(
    stack: contextlib.ExitStack, members: Sequence[FleetMember], table: str, say: Say
) -> tuple[list[ServerRecords], list[ServerRecords]]:
    """Keep other commands from ordering something meanwhile; return all parts, and those meant."""
    allowed_files()
    parts = looked_at(members, table)
    lock = lock_name("fleet-order", _chosen(parts, say)[0].records[0].fleet)
    until = time.monotonic() + _TURN_SECONDS
    for identity, session in sessions_on(stack, parts, 2 * _TURN_SECONDS):
        try:
            taken = take_named_lock(session, lock, timeout=max(0.0, until - time.monotonic()))
        except SpiritError as error:
            leave_out(parts, identity, error)
            continue
        if not taken:
            raise Refusal(
                "another spirit-py ctl --fleet is at work on this change",
                hint="wait for it to end",
                error_code=ErrorCode.ALREADY_RUNNING,
            )
    # Others may have written there before this one had the locks.
    look_at([one for one in parts if one.error is None])
    if not any(one.records for one in parts):
        _raise_failures(parts, say)
    return parts, _chosen(parts, lambda _: None)


_HOLDING: Final = (Verb.PAUSE, Verb.POSTPONE, Verb.ABORT)


@dataclass(kw_only=True, eq=False)
class _Asking:
    """One request for each migration that is at work; for a pause, also for those that begin.

    One that takes no requests yet, or now, is asked again for a while.
    """

    table: str
    verb: str
    given: Mapping[str, str]
    orders: FleetOrders
    say: Say
    asked: set[tuple[str, Name]] = field(default_factory=set)
    #: Whether one that takes no requests is asked no more.
    last: bool = False

    def all(self, begun: Sequence[ServerRecords]) -> None:
        until, quiet = time.monotonic() + _BEGINNING_SECONDS, 0
        pauses, at_work = self.verb == Verb.PAUSE, _at_work_on(begun)
        if not at_work and not self.orders.number:
            self.say("no migration is at work on these servers now: none was asked")
        while True:
            self.last = time.monotonic() >= until
            left = self._left(at_work)
            side_by_side("look", [partial(self._one, *one) for one in left], LOOKING)
            quiet = 0 if left else quiet + 1
            done = quiet >= _QUIET_LOOKS if pauses else not self._left(at_work)
            if self.last or done:
                return
            threading.Event().wait(_AGAIN_SECONDS)
            if pauses:
                self._look_again(begun)
                at_work = _at_work_on(begun)

    def _left(self, at_work: Iterable[_AtWork]) -> list[_AtWork]:
        return [one for one in at_work if (one[0].member.name, one[1]) not in self.asked]

    def _look_again(self, begun: Sequence[ServerRecords]) -> None:
        there = looked_at([one.member for one in begun], self.table)
        for part, now in zip(begun, there, strict=True):
            fleets = {one.fleet for one in part.records}
            if now.error is None:
                part.records = [one for one in now.records if one.fleet in fleets]
            if _replaced(part.records, self.orders):
                part.error = part.error or _LATER

    def _one(self, part: ServerRecords, table: Name) -> None:
        where = f"{part.member.name} {'.'.join(table)}"
        try:
            control(
                part.member.connection,
                database=table[0],
                table=table[1],
                verb=self.verb,
                arguments=self.given,
                say=lambda line: self.say(f"{where}: {line}"),
            )
        except SpiritError as error:
            absent = error.error_code is ErrorCode.NOTHING_TO_CONTROL
            ended = absent and self._has_ended(part, table)
            # Those of which a pause finds no process in its next look are asked no more.
            if absent and not self.last and not (ended and self.verb != Verb.PAUSE):
                return
            self.say(f"{where}: {error.message}")
            # One that has ended meanwhile needs no order any more, and one that takes no requests,
            # as in an ALTER in place for hours, has to know of what holds it alone; but of one that
            # was to drop its copy, the operator should know.
            deaf = absent and (ended or self.verb not in _HOLDING)
            if not deaf or CLEANUP in self.given:
                part.error = error
        self.asked.add((part.member.name, table))

    def _has_ended(self, part: ServerRecords, table: Name) -> bool:
        """Return whether no process has the table; one that has it may take no requests now."""
        (now,) = looked_at([part.member], self.table)
        return now.error is None and (now, table) not in _at_work_on([now])


def _at_work_on(parts: Iterable[ServerRecords]) -> list[_AtWork]:
    return [(part, name) for part in parts for one in part.records for name in one.at_work]


def forget_fleet(members: Sequence[FleetMember], *, table: str, say: Say) -> None:
    """Forget a fleet: drop its records on these servers, and say which tables were not done.

    Refusal while a process works on it. What migrations of its tables left stays.
    """
    with contextlib.ExitStack() as stack:
        parts, begun = _in_turn(stack, members, table, say)
        if any(one.coordinated or one.at_work for part in begun for one in part.records):
            raise _at_work()
        _keep_coordinators_away(stack, parts, begun)
        _drop(begun, say)
    _raise_failures(parts, say)


def _keep_coordinators_away(
    stack: contextlib.ExitStack, parts: Sequence[ServerRecords], begun: Sequence[ServerRecords]
) -> None:
    """Take the locks that a coordinator takes; Refusal where one has begun meanwhile.

    One that comes later finds that the records are not as it has planned.
    """
    for identity, session in sessions_on(stack, parts, 2 * _TURN_SECONDS):
        there = [part.records for part in begun if part.identity == identity]
        locks = {lock_name("fleet", one.store.name[1]) for found in there for one in found}
        for lock in sorted(locks):
            if not take_named_lock(session, lock):
                raise _at_work()


def _at_work() -> Refusal:
    return Refusal(
        "a process works on this change now",
        hint="stop it first: spirit-py ctl --fleet LIST abort",
        error_code=ErrorCode.ALREADY_RUNNING,
    )


def _drop(begun: Sequence[ServerRecords], say: Say) -> None:
    side_by_side("look", [one.drop for one in begun], LOOKING)
    for part in begun:
        for one in part.records if part.error is None else ():
            left = ", ".join(".".join(name) for name in one.left)
            undone = f"; not done: {left}" if left else ""
            say(f"{part.member.name}: dropped {one.store}{undone}")


#: See :func:`agreed`: whoever may write there could have forged the order (R26).
_OF_ONE: Final = MigrationFailure(
    "the order may not count: of this list one server alone has it, and where others of this change"
    " have begun, too, two must have it",
    hint="give the order with a list of all servers, or of two that have begun, when they answer",
)
_LATER: Final = MigrationFailure(
    "a later order was given there meanwhile, by a command whose list has none of these servers",
    hint="spirit-py ctl --fleet LIST status shows what holds; give the order again if it is to",
)


def _written(
    parts: Sequence[ServerRecords], orders: FleetOrders, verb: str, table: str
) -> list[ServerRecords]:
    """Write orders into all records, also of servers that begin meanwhile; return their parts.

    Until all have them, so many times at most.

    One that begins later is begun by a coordinator that finds the orders before it hears of it.
    """
    known = {one.member.name: one for one in parts}
    left = [one for one in parts if one.records]
    fleet = left[0].records[0].fleet
    for _ in range(_WRITES) if orders.number else ():
        _write(left, orders, verb)
        left = []
        for seen in looked_at([one.member for one in parts], table):
            part = known[seen.member.name]
            found = [one for one in seen.records if one.fleet == fleet]
            part.records = part.records or found
            if _replaced(found, orders):
                part.error = part.error or _LATER
            # A coordinator may have written what it knew over the order.
            elif part.error is None and any(one.orders.order != orders.order for one in found):
                left.append(part)
        if not left:
            break
    return [one for one in parts if one.records]


def _replaced(records: Iterable[FleetRecord], orders: FleetOrders) -> bool:
    """Return whether a later order than this one stands there, and not one from the future."""
    later = (one.orders for one in records if one.orders.number > orders.number > 0)
    return not all(one.ahead_of(time.time()) for one in later)


def _write(begun: Sequence[ServerRecords], orders: FleetOrders, verb: str) -> None:
    if not orders.number:
        return
    resumes = verb == Verb.RESUME
    written = [partial(one.order, orders, resumes=resumes) for one in begun]
    side_by_side("look", written, LOOKING)


def _chosen(parts: Sequence[ServerRecords], say: Say) -> list[ServerRecords]:
    """Return the parts with the records of the one change that is meant, and no others."""
    fleets = {one.fleet for part in parts for one in part.records}
    counts = Counter({one: len(rows_of(parts, one)) for one in fleets})
    if not counts:
        raise Refusal(
            "no change for several servers is under way or unfinished on these servers",
            hint="it leaves a record on each server that it has begun, as soon as its process there"
            " has planned: see spirit-py ctl --fleet LIST status",
            error_code=ErrorCode.NOTHING_TO_CONTROL,
        )
    (fleet, most), *others = counts.most_common()
    if others and others[0][1] == most:
        raise Refusal(
            "these servers have the records of several changes, and it is not clear which is meant",
            hint="say which with --table, or control each migration by itself (spirit-py ctl"
            " --host)",
            details=tuple(
                f"{part.member.name}: {one.store}" for part in parts for one in part.records
            ),
            error_code=ErrorCode.BATCH_RECORD,
        )
    for part in parts:
        for one in part.records:
            if one.fleet != fleet:
                say(f"{part.member.name}: {one.store} is of another change, and is left as it is")
        part.records = [one for one in part.records if one.fleet == fleet]
        if len(part.records) > 1:
            twice = ", ".join(str(one.store) for one in part.records)
            part.records, part.error = (
                [],
                Refusal(
                    f"there are several records of this change: {twice}",
                    hint="of one entry there is one: see who has made the others, and have them"
                    " dropped; entries that are schemas of one server name them in the list",
                    error_code=ErrorCode.BATCH_RECORD,
                ),
            )
    begun = [one for one in parts if one.records]
    if not begun:
        _raise_failures(parts, say)
    return begun


def _latest(seen: Sequence[FleetOrders], away: int) -> FleetOrders:
    """Return the orders that count, of those that servers have, by a number that counts as later.

    Of servers that are away it is not known whether they have begun.
    """
    # What one row alone says may be forged, but a pause in it is not ended by the way.
    known = FleetOrders(paused=len(seen) == 1 and seen[0].paused)
    counts = agreed(seen, known, begun=len(seen) + away)
    # Else nothing is written over it, where this machine's clock is behind.
    return replace(counts, number=max(counts.number, last_number(seen)))


def _after(latest: FleetOrders, verb: str, given: dict[str, str]) -> FleetOrders:
    """Return the orders after a verb, none where it changes none; take its own setting out."""
    # A command that begins withdraws an abort with the next number after what it has seen.
    following = replace(latest, number=max(time.time_ns() // 1_000_000, latest.number + 2))
    if verb in {Verb.PAUSE, Verb.RESUME}:
        return replace(following, paused=verb == Verb.PAUSE)
    if verb == Verb.ABORT:
        return replace(following, aborted=True)
    number = given.pop(AT_ONCE, None)
    if verb != Verb.SET or number is None:
        return FleetOrders()
    # Of a number of thousands of digits int() raises.
    short = number.isdecimal() and len(number) <= _DIGITS
    if not short or not 0 < int(number) <= MOST_SERVERS:
        raise UsageFault(
            f"{AT_ONCE}={number} is no number",
            hint=f"write a whole number from 1 to {MOST_SERVERS}",
        )
    return replace(following, at_once=int(number))


def _said(verb: str, orders: FleetOrders) -> str:
    if verb == Verb.PAUSE:
        return "paused: no server and no table begins"
    if verb == Verb.RESUME:
        return "goes on"
    if verb == Verb.ABORT:
        return "aborted: no server begins, and those at work stop"
    return f"at most {orders.at_once} servers at a time"


def _raise_failures(parts: Sequence[ServerRecords], say: Say) -> None:
    failed = [one for one in parts if one.error is not None]
    for one in failed:
        say(f"{one.member.name}: {one.error.message if one.error else ''}")
    for one in failed:
        if one.error is not None:
            raise one.error
