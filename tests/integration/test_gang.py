"""The gang's conversation through a real server, with threads and with Spark."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import MySQLdb
import pytest

from spirit_py.errors import (
    AnotherServer,
    Interrupted,
    MigrationFailure,
    Refusal,
    ServerFault,
    ValueLost,
    WorkersLost,
)
from spirit_py.mysql.connect import connect
from spirit_py.mysql.own_sessions import ours
from spirit_py.spark import gang as gang_module
from spirit_py.spark.gang import Gang, OrderAnswer
from spirit_py.spark.member import MemoryMailbox
from spirit_py.spark.server_mailbox import TableMailbox, VariablesMailbox
from spirit_py.sql import quote_table
from spirit_py.threads import StopSwitch
from tests.kits.connection import connection_options
from tests.kits.engine import ThreadEngine


@dataclass
class Echo:
    """A member that answers with its rank and the order, and remembers the orders."""

    session: Any
    rank: int

    def __post_init__(self) -> None:
        self.sessions = [("source", self.session.id)]
        self.heard: list[str] = []

    def handle(self, order: str) -> str:
        """Answer; or sleep on the server, or fail, as the order says."""
        self.heard.append(order)
        if order == "sleep":
            self.session.query("SELECT SLEEP(60)")
        if order == "work":
            self.session.query("SELECT SLEEP(3)")
        if order == "fail":
            raise ValueLost("this value does not fit")
        return f"{self.rank}:{order}"

    def result(self) -> list[str]:
        """Return the orders heard."""
        return self.heard

    def close(self) -> None:
        """Close the session."""
        self.session.close()


def join(options, rank) -> Echo:
    """Be the member of a rank; ships to Spark by reference to this module or as a closure."""
    return Echo(connect(options, role=f"echo-{rank}"), rank)


def fail_to_join(rank) -> Echo:
    """Be a member that cannot come."""
    raise MigrationFailure(f"member {rank} found no server")


class RemoteEngine(ThreadEngine):
    """Threads as if they were executors, which reach what they reach."""

    in_process = False


#: An executor without the driver, another product or server at the address there, an account that
#: may not come from there.
FAR_FROM_HERE = [
    Refusal("the MySQL driver mysqlclient is not installed"),
    AnotherServer("another server answers at 127.0.0.1:3306"),
    ServerFault(1130, "this host may not log in", where="echo"),
    ServerFault(1045, "access denied", where="echo"),
]


def raises(error, _rank) -> Echo:
    """Be a member that cannot come, for a reason of its machine."""
    raise error


def mailbox_of(kind, db, control, options):
    """Open a mailbox of a kind, whatever the server could do."""
    if kind == "memory":
        return MemoryMailbox(control)
    if kind == "variables":
        return VariablesMailbox(control)
    db.execute("CREATE TABLE IF NOT EXISTS `b%sx` (id INT PRIMARY KEY, record LONGTEXT NOT NULL)")
    return TableMailbox(options, quote_table(db.name, "b%sx"))


@pytest.fixture(params=["memory", "variables", "table"])
def kind(request):
    """Each kind of mailbox in turn."""
    return request.param


@pytest.fixture(params=["variables", "table"])
def remote(request):
    """Each kind of mailbox that leads out of the process."""
    return request.param


@contextlib.contextmanager
def gang(db, engine=None, *, kind, size=2, stop=None, member=None, options=None, seconds=60):
    """Open a gang of echoes that has come together; all know each other by the options' secret."""
    options = options or connection_options(db)

    with (
        connect(options, role="control") as control,
        contextlib.closing(mailbox_of(kind, db, control, options)) as mailbox,
        Gang[list[str]](
            engine or ThreadEngine(size),
            mailbox,
            member or partial(join, options),
            size=size,
            stop=stop or StopSwitch(),
            reach=lambda _: options,
            description="echoes",
        ) as together,
    ):
        together.assemble(seconds)
        yield together


def collect(together, number):
    """Collect so many answers."""
    answers: list[OrderAnswer] = []
    while len(answers) < number:
        answers += together.collect()
    return answers


def run(db, kind, body, engine=None, **given):
    """Run a scenario in a gang."""
    with gang(db, engine, kind=kind, **given) as together:
        body(together)


def driver_session(together):
    """Return the session of the driver through which the messages go."""
    mailbox = together.mailbox
    return mailbox._session.id


def wait_for_statement(db, text):
    """Wait until a session executes a statement with this text."""
    for _ in range(5000):
        if db.query(
            "SELECT 1 FROM performance_schema.threads WHERE processlist_info LIKE %s"
            " AND processlist_id <> CONNECTION_ID()",
            (text,),
        ):
            return
        threading.Event().wait(0.002)
    raise AssertionError(f"no session came to execute {text}")


def test_every_member_answers_an_order_once(db, kind):
    """One order to all is answered by each, once."""
    with gang(db, kind=kind, size=3) as together:
        assert together.everyone("a", 20) == ["0:a", "1:a", "2:a"]
        assert together.everyone("b", 20) == ["0:b", "1:b", "2:b"]
        assert together.finish() == [["a", "b"]] * 3


def test_outstanding_orders_are_answered_in_sequence(db, kind):
    """Orders posted before the last was answered are neither lost nor mixed up."""
    with gang(db, kind=kind) as together:
        together.everyone("0", 20)
        posted = {0: 1, 1: 1}
        answers: list[OrderAnswer] = []
        while len(answers) < 60:
            for rank in (0, 1):
                while together.outstanding(rank) < 3 and posted[rank] <= 30:
                    together.post(rank, str(posted[rank]))
                    posted[rank] += 1
            answers += together.collect()
        expected = [str(number) for number in range(31)]
        assert together.finish() == [expected, expected]
        for rank in (0, 1):
            said = [answer.text for answer in answers if answer.rank == rank]
            assert said == [f"{rank}:{number}" for number in range(1, 31)]


def test_any_text_survives_the_mailbox(db, kind):
    """Quotes, backslashes, percent signs and length survive the mailbox."""
    text = "'\"\\%s %(x)s `ä\U0001f600\0\n" + "x" * 200_000
    with gang(db, kind=kind, size=1) as together:
        assert together.everyone(text, 20) == [f"0:{text}"]
        assert together.finish() == [[text]]


def fail_at_rank_one(together):
    """Let one member fail."""
    together.post(1, "fail")
    collect(together, 1)


def test_a_member_that_fails_ends_the_gang_with_its_error(db, kind):
    """The error of one member is raised in the driver, and the others go home."""
    with pytest.raises(ValueLost, match="does not fit"):
        run(db, kind, fail_at_rank_one)


def test_a_member_that_cannot_join_ends_the_gang_at_once(db, kind):
    """When a task fails before it reports, the driver does not wait for its timeout."""
    with pytest.raises(MigrationFailure, match="found no server"):
        run(db, kind, print, member=fail_to_join)


def one_refused(options, rank) -> Echo:
    """Be the members of a server that has room for all but one."""
    if rank:
        raise ServerFault(1040, "Too many connections", where="echo")
    return join(options, rank)


def assert_a_refusal_is_known(db, kind, engine):
    """A member is refused, and what it was refused is raised long before the time is up."""
    member = partial(one_refused, connection_options(db))
    with pytest.raises(WorkersLost, match="Too many connections") as lost:
        run(db, kind, print, engine, member=member, seconds=3600)
    assert gang_module.lacked_sessions(lost.value)


@pytest.mark.parametrize("far", [False, True])
def test_a_member_that_is_refused_its_session_is_named(db, far):
    """At once, while the others wait for orders."""
    assert_a_refusal_is_known(db, "variables", RemoteEngine() if far else ThreadEngine())


@pytest.mark.slow
def test_a_member_that_is_refused_its_session_is_named_on_spark(db, spark_engine):
    """Its error arrives while the job goes on: two minutes passed before that was known."""
    assert_a_refusal_is_known(db, "variables", spark_engine)


@pytest.mark.parametrize("error", FAR_FROM_HERE, ids=lambda one: one.error_code.value)
def test_what_keeps_an_executor_from_the_server_loses_the_gang_alone(db, error):
    """R17: threads of the driver reach it, so such an error ends no run, and drops no copy."""
    with pytest.raises(WorkersLost, match=re.escape(error.message)):
        run(db, "variables", print, RemoteEngine(), member=partial(raises, error))
    with pytest.raises(type(error), match=re.escape(error.message)):
        run(db, "variables", print, member=partial(raises, error))


def test_a_lost_session_loses_the_gang(db, kind):
    """A member whose session is killed is noticed; the others end."""

    def kill_one(together):
        together.everyone("a", 20)
        victims = db.query(
            "SELECT t.processlist_id FROM performance_schema.threads t"
            " JOIN performance_schema.user_variables_by_thread v USING (thread_id)"
            " WHERE v.variable_name = 'spirit_py_role' AND v.variable_value = 'echo-1'"
        )
        assert [db.kill(number) for (number,) in victims]
        collect(together, 1)

    with pytest.raises(WorkersLost):
        run(db, kind, kill_one)


@pytest.mark.slow
def test_leaving_early_ends_members_that_work(db, kind):
    """A driver that fails does not leave a statement of a member behind on the server."""

    def leave(together):
        together.post(0, "sleep")
        wait_for_statement(db, "SELECT SLEEP(60)")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        run(db, kind, leave)


def test_the_stop_switch_is_heard(db, kind):
    """A stop ends the conversation with its reason."""
    stop = StopSwitch()

    def interrupt(together):
        together.everyone("a", 20)
        stop.request(Interrupted(2))
        together.collect()

    with pytest.raises(Interrupted):
        run(db, kind, interrupt, stop=stop)


def test_members_end_when_the_driver_is_gone(db, remote):
    """Without the driver's session there are no more orders: the tasks end by themselves."""

    def lose_driver(together):
        together.everyone("a", 20)
        db.execute(f"KILL {driver_session(together)}")
        assert together._job.wait(20)
        together.collect()

    with pytest.raises(MigrationFailure):
        run(db, remote, lose_driver)


@pytest.mark.slow
def test_a_gang_on_spark_answers_like_one_of_threads(db, remote, spark_engine):
    """The same conversation and the same error with tasks in barrier mode, on one engine."""
    for text in ("a", "b"):
        with gang(db, spark_engine, kind=remote, size=spark_engine.slots) as together:
            assert together.everyone(text, 60) == [f"{rank}:{text}" for rank in range(2)]
            assert together.finish() == [[text]] * 2
        with pytest.raises(ValueLost, match="does not fit"):
            run(db, remote, fail_at_rank_one, spark_engine)


def ask_for_ever(together):
    """Send orders until something ends that."""
    while True:
        together.everyone("a", 20)


@pytest.mark.slow
@pytest.mark.draws(2)
def test_a_member_behind_a_black_hole_is_noticed_and_ended(
    db, remote, proxy, monkeypatch, spark_engine
):
    """A task that a network has swallowed, without a word to either side, is noticed and ended."""
    monkeypatch.setattr(gang_module, "SILENT_SECONDS", 3)
    monkeypatch.setattr(gang_module, "_CHECK_SECONDS", 0.5)
    direct = connection_options(db)
    cut_off = replace(direct, host=proxy.host, port=proxy.port)

    def one_behind_it(rank):
        return join(cut_off if rank else direct, rank)

    def swallow(together):
        together.everyone("a", 20)
        proxy.black_hole = True
        together.post(1, "work")
        collect(together, 1)

    with pytest.raises(WorkersLost, match="not in contact with the server"):
        run(db, remote, swallow, spark_engine, member=one_behind_it, options=direct)


@pytest.mark.slow
@pytest.mark.draws(2)
def test_a_member_that_works_for_long_is_not_silent(db, kind, monkeypatch):
    """A statement that takes longer than the silence that is allowed is waited for."""
    monkeypatch.setattr(gang_module, "SILENT_SECONDS", 2)
    monkeypatch.setattr(gang_module, "_CHECK_SECONDS", 0.1)

    def work(together):
        together.post(0, "work")
        assert [answer.text for answer in collect(together, 1)] == ["0:work"]

    run(db, kind, work)


class Distant(Echo):
    """A member with a session on another server, on which it works."""

    def __init__(self, options, rank):
        super().__init__(connect(options, role=f"echo-{rank}"), rank)
        self.away = connect(options, role=f"away-{rank}")
        self.sessions = [*self.sessions, ("there", self.away.id)]

    def handle(self, order: str) -> str:
        """Work there, or idle until that session is ended."""
        if order == "work":
            self.away.query("SELECT SLEEP(3)")
        while order == "idle" and ours(self.session, [self.away.id]):
            threading.Event().wait(4)
        return f"{self.rank}:{order}"

    def close(self) -> None:
        """Close both sessions."""
        self.away.close()
        super().close()


@pytest.mark.slow
@pytest.mark.parametrize("order", ["work", "idle"])
def test_a_member_of_two_servers_is_silent_where_it_idles_on_both(db, monkeypatch, order):
    """R23: its session here idles while it works there, and its session there is ended as well."""
    monkeypatch.setattr(gang_module, "SILENT_SECONDS", 2)
    monkeypatch.setattr(gang_module, "_CHECK_SECONDS", 0.1)
    options = connection_options(db)

    def work(together):
        together.post(0, order)
        assert [answer.text for answer in collect(together, 1)] == ["0:work"]

    lost = pytest.raises(WorkersLost, match="not in contact with the server")
    with lost if order == "idle" else contextlib.nullcontext():
        run(db, "memory", work, member=partial(Distant, options), options=options)


def forge(db, mailbox, sender, letter):
    """Write a message as another account could: in a variable of its own, or over the row."""
    intruder = db.connect()
    if isinstance(mailbox, TableMailbox):
        text, place = json.dumps([sender, letter]), mailbox.box.first
        sql = "REPLACE INTO `b%%sx` (id, record) VALUES (%s, %s)"
        intruder.cursor().execute(sql, (place, text))
    else:
        intruder.cursor().execute(f"SET @{mailbox.name} = %s", (json.dumps(letter),))


def test_a_message_that_another_account_has_written_is_not_believed(db, remote):
    """Neither its answers nor the sessions that it claims to be the member's, to be ended (R26)."""
    bystander = db.connect()
    letter = {"rank": 0, "sessions": [["source", bystander.thread_id()]], "answers": [[1, "lie"]]}
    # A row that another account overwrites is a lost message, and the gang begins anew.
    lost = [WorkersLost] if remote == "table" else []
    with gang(db, kind=remote) as together, contextlib.suppress(*lost):
        forge(db, together.mailbox, together._seats[0].sender, letter)
        together.post(0, "ask")
        assert [answer.text for answer in collect(together, 1)] == ["0:ask"]
    bystander.query("DO 0")


def test_a_driver_whose_session_ends_before_its_members_do_has_lost_them(db, remote):
    """A comparison starts the part again: nothing of it is known to be wrong."""
    with gang(db, kind=remote) as together:
        together.everyone("a", 20)
        db.execute(f"KILL {driver_session(together)}")
        with pytest.raises(WorkersLost, match="the driver's session is gone"):
            together.finish()


@pytest.mark.parametrize("how", ["CONNECTION", "QUERY"])
def test_a_lost_conversation_is_a_lost_gang(db, remote, how):
    """KILL of the driver's own session in a gang, or of its looks, asks for a new gang."""
    with gang(db, kind=remote) as together:
        killing = threading.Event()
        own = driver_session(together)

        def kill():
            session = db.connect()
            while not killing.is_set():
                with contextlib.suppress(MySQLdb.Error):
                    session.cursor().execute(f"KILL {how} {own}")

        thread = threading.Thread(target=kill)
        thread.start()
        try:
            with pytest.raises(WorkersLost, match="conversation") as lost:
                ask_for_ever(together)
            # These are threads.
            assert "Spark" not in lost.value.message
        finally:
            killing.set()
            thread.join()
