"""Errors of the server are sorted three ways, and the first connection's are explained."""

from __future__ import annotations

import pickle
import re

import pytest

from spirit_py.config import ConnectionOptions
from spirit_py.errors import ServerFault
from spirit_py.mysql.faults import (
    Disposition,
    access_denied,
    connection_lost,
    connection_refusal,
    disposition,
    excused,
    server_fault,
)
from spirit_py.options import declared
from spirit_py.options.servers import TargetOptions


def fault(code: int, text: str = "text of the server") -> ServerFault:
    """Return a fault with a number."""
    return ServerFault(code, text, where="test session")


@pytest.mark.parametrize("code", [1040, 1041, 1135, 1205, 1213, 1317, 2002, 2003, 3024, 3032, 3101])
def test_transient_errors_are_tried_again(code):
    """Deadlocks, lock waits, interruptions and full servers pass."""
    assert disposition(fault(code)) is Disposition.RETRY
    assert disposition(fault(code), committing=True) is Disposition.RETRY


@pytest.mark.parametrize("code", [1053, 2006, 2013, 2026, 2055, 4031, 4081, 4082])
def test_a_connection_lost_during_commit_leaves_the_outcome_open(code):
    """A lost connection is tried again, unless it was lost during commit or RENAME."""
    assert connection_lost(fault(code))
    assert disposition(fault(code)) is Disposition.RETRY
    assert disposition(fault(code), committing=True) is Disposition.UNKNOWN


@pytest.mark.parametrize("code", [0, 1045, 1062, 1064, 1114, 1146, 1264, 1290, 1836])
def test_what_would_fail_again_is_fatal(code):
    """What would fail again is fatal."""
    assert not connection_lost(fault(code))
    assert disposition(fault(code)) is Disposition.FATAL
    assert disposition(fault(code), committing=True) is Disposition.FATAL


def test_an_error_during_commit_leaves_the_outcome_open():
    """An error in the commit itself leaves the outcome open, told so or not."""
    assert disposition(fault(1180)) is Disposition.UNKNOWN


def test_a_binary_log_that_cannot_be_written_leaves_the_outcome_of_a_commit_open():
    """The server may end after that answer, and commit what its log has when it starts again."""
    assert disposition(fault(1598), committing=True) is Disposition.UNKNOWN
    assert disposition(fault(1598)) is Disposition.FATAL


def test_other_exceptions_are_fatal():
    """What is not an error of the server is not tried again."""
    assert disposition(ValueError("x")) is Disposition.FATAL
    assert not connection_lost(ValueError("x"))


def test_number_text_and_next_step_of_an_error_are_kept():
    """The driver's number and text are kept, the place is added, next steps where there are."""
    ours = server_fault(Exception(1836, "Running in read-only mode"), where="apply session at h:1")

    assert (ours.code, ours.text) == (1836, "Running in read-only mode")
    assert ours.message == "Running in read-only mode (error 1836, apply session at h:1)"
    assert "primary" in ours.hint
    assert "disk" in server_fault(Exception(1114, "full"), where="w").hint
    assert "again" in server_fault(Exception(2013, "lost"), where="w").hint
    assert "max_binlog_cache_size" in server_fault(Exception(1197, "full"), where="w").hint
    assert "size_limit" in server_fault(Exception(3100, "before_commit"), where="w").hint
    taken_back = server_fault(Exception(3101, "Plugin instructed the server"), where="w").hint
    assert all(one in taken_back for one in ("group_members", "same command again", "size_limit"))
    assert "MAX_QUERIES_PER_HOUR" in server_fault(Exception(1226, "exceeded"), where="w").hint
    assert server_fault(Exception(1064, "syntax"), where="w").hint == ""


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("Got error 28 - 'No space left on device' from storage engine", True),
        ("Got error 28 from storage engine", True),
        ("Got error 168 - 'Unknown (generic) error from engine' from storage engine", False),
        ("Got error 128 - 'Out of memory in engine' from storage engine", False),
    ],
)
def test_an_engine_s_error_has_the_hint_of_a_full_disk_only_where_it_is_full(text, full):
    """The server has one number for all that its engines report."""
    hint = server_fault(Exception(1030, text), where="w").hint
    assert ("free disk" in hint, "error log" in hint) == (full, not full)


def test_a_server_that_takes_no_writes_may_have_a_full_disk():
    """Some services set read_only then: there is no other primary to be looked for."""
    assert "disk" in server_fault(Exception(1290, "--read-only"), where="w").hint


def test_a_fault_without_a_number_keeps_its_text():
    """An error of the driver without a number keeps its text, or at least its name."""
    assert server_fault(Exception("bad argument"), where="w").code == 0
    assert server_fault(Exception("bad argument"), where="w").text == "bad argument"
    assert server_fault(ValueError(), where="w").text == "ValueError"


def test_a_fault_survives_pickling():
    """A fault comes back from another process with its number and an unchanged message."""
    original = fault(1213)
    back = pickle.loads(pickle.dumps(original))

    assert (back.code, back.text, back.message, str(back)) == (
        1213,
        original.text,
        original.message,
        str(original),
    )


@pytest.mark.parametrize(
    ("code", "cause", "remedy"),
    [
        (2005, "the host db1 is unknown", "--host"),
        (2002, "no server answers there", "--port"),
        (1045, "does not accept user joe with this password", "--password"),
        (1044, "text of the server", "grant user joe"),
        (1049, "text of the server", "--database"),
        (3159, "requires TLS", "--ssl-mode REQUIRED"),
        (2026, "TLS failed: text of the server", "ssl-ca"),
        (1040, "text of the server", "max_connections"),
        (3032, "text of the server", "offline_mode=OFF"),
        (1129, "has blocked this host", "host_cache"),
        (1130, "from this host", "create the account joe"),
        (3955, "text of the server", "ACCOUNT UNLOCK"),
        (2013, "closed the connection", "MySQL server"),
        (9999, "text of the server (error 9999)", "error log"),
    ],
)
def test_a_failed_first_connection_has_cause_and_remedy(code, cause, remedy):
    """Why the first connection failed takes one line, what to do another."""
    refusal = connection_refusal(
        fault(code), ConnectionOptions(host="db1", port=3307, user="joe", password="hush")
    )

    assert refusal.exit_code == 2
    assert refusal.message.startswith("cannot connect to db1:3307: ")
    assert cause in refusal.message
    assert remedy in refusal.hint
    assert "hush" not in refusal.message + refusal.hint
    assert "\n" not in refusal.message + refusal.hint


@pytest.mark.parametrize("code", [1045, 1698])
def test_a_login_without_a_password_is_not_said_to_have_had_one(code):
    """Whoever forgot it looks for no typing error."""
    refusal = connection_refusal(fault(code), ConnectionOptions(host="db1", user="joe"))
    assert "does not accept user joe, and no password was given" in refusal.message
    assert "--password without a value" in refusal.hint


@pytest.mark.parametrize(("password", "code"), [("hush", 1045), ("", 1045), ("hush", 3159)])
def test_the_remedy_at_the_server_that_is_compared_with_names_its_options(password, code):
    """Those of the source would change the other login."""
    options = ConnectionOptions(host="db2", user="joe", password=password)
    hint = connection_refusal(fault(code), options, target=True).hint
    named = set(re.findall(r"--[a-z-]+", hint))
    assert named
    assert named <= {one.flag for one in declared(TargetOptions)}


def test_only_the_fault_that_is_named_is_excused():
    """By its code or by its kind; without one the answer counts, and any other is raised."""

    def denied():
        raise ServerFault(1142, "SELECT command denied", where="here")

    assert excused(lambda: 3, 0, {1142}) == 3
    assert excused(denied, 0, {1142}) == excused(denied, 0, access_denied) == 0
    with pytest.raises(ServerFault):
        excused(denied, 0, {1146})
    with pytest.raises(ServerFault):
        excused(denied, 0, lambda fault: fault.code == 1146)
