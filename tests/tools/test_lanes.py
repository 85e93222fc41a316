"""The regression lanes: what they run, what they refuse, and that CI only calls them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from datetime import date, timedelta
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING, Any
from unittest import mock
from zlib import crc32

import pytest
import yaml

from lane import COMPOSE_FILE, DRAWN_FROM, INIT_FILE, LANES, Lane, LaneLacks, main
from mysql_base import wait_until
from tests.fixtures.cases import SLOW_DAYS, is_its_day
from tests.fixtures.lane import LANE_VARIABLE, check_series
from tests.fixtures.spark import ENGINE_VARIABLE
from tests.kits.waiting import DEADLINE, alive
from wheel_bare import Failed, Server

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mysql_base import MySQLServer

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


class Outside:
    """Records what a lane runs; a command that contains one of `fails` fails."""

    def __init__(self, *fails: str) -> None:
        self.fails = fails
        self.commands: list[str] = []
        self.environments: list[dict[str, str]] = []

    def __call__(self, command: Sequence[str], environ: Mapping[str, str]) -> int:
        """Stand in for `lane.run`."""
        text = " ".join(command)
        self.commands.append(text)
        self.environments.append(dict(environ))
        return int(any(word in text for word in self.fails))


def lane(outside: Outside, *, engine: bool, **environ: str) -> Lane:
    """Return a lane that reaches nothing real."""
    return Lane(arguments=("-x",), environ=environ, engine=lambda _: engine, run=outside)


def load(path: Path) -> Any:
    """Read a YAML file; under YAML 1.1 the key `on` is a truth value."""
    return yaml.safe_load(path.read_text())


def compose() -> dict[str, Any]:
    """Return the services of the compose file."""
    return load(ROOT / COMPOSE_FILE)["services"]


def test_the_semisync_lane_uses_compose_where_an_engine_answers() -> None:
    """With an engine the servers of the compose file come up, are used, and go down."""
    outside = Outside()

    assert lane(outside, engine=True).semisync() == 0

    steps = [re.sub(r".* -p \S+ ", "", command) for command in outside.commands]
    assert steps[0] == "docker compose version"
    assert steps[1:3] == ["config --quiet", "up --detach --wait --wait-timeout 300"]
    assert steps[3].endswith("-m pytest tests/semisync -x")
    assert steps[4] == "down --volumes --timeout 5"
    made, used = outside.environments[2], outside.environments[3]
    for name in ("SOURCE", "REPLICA"):
        password, port = (
            made["SPIRIT_PY_SEMISYNC_PASSWORD"],
            made[f"SPIRIT_PY_SEMISYNC_{name}_PORT"],
        )
        assert used[f"SPIRIT_PY_SEMISYNC_{name}"] == f"mysql://root:{password}@127.0.0.1:{port}"
    assert used["SPIRIT_PY_SEMISYNC"] == "compose"
    assert all(password not in command for command in outside.commands)


def test_the_image_may_read_what_it_runs_in_a_private_clone(monkeypatch, tmp_path) -> None:
    """Made with umask 077; the account of the server in the image is another one."""
    private = tmp_path / INIT_FILE
    private.parent.mkdir()
    private.write_text("sql")
    private.chmod(0o700)
    monkeypatch.setattr("lane.REPOSITORY", tmp_path)
    modes = set()

    def outside(_command: Sequence[str], environ: Mapping[str, str]) -> int:
        given = environ.get("SPIRIT_PY_SEMISYNC_INIT", private)
        modes.add((Path(given).stat().st_mode & 0o777, Path(given).read_text()))
        return 0

    assert Lane(arguments=(), environ={}, engine=lambda _: True, run=outside).semisync() == 0
    assert (0o755, "sql") in modes


def test_the_semisync_lane_uses_two_local_servers_without_an_engine() -> None:
    """Without an engine a source and a replica are made on this machine."""
    outside = Outside()

    assert lane(outside, engine=False).semisync() == 0

    assert len(outside.commands) == 1
    assert outside.environments[0]["SPIRIT_PY_SEMISYNC"] == "pair"


@pytest.mark.parametrize(
    ("fails", "message"),
    [
        ("compose version", "no `docker compose`"),
        ("config", "not valid"),
        ("up --detach", "did not start"),
    ],
)
def test_the_semisync_lane_fails_when_compose_does_not_work(fails: str, message: str) -> None:
    """An engine that cannot be used fails the lane, which says why; nothing is left running."""
    outside = Outside(fails)

    with pytest.raises(LaneLacks, match=message):
        lane(outside, engine=True).semisync()

    assert not any("pytest" in command for command in outside.commands)
    assert any(" up " in c for c in outside.commands) == any(
        " down " in c for c in outside.commands
    )


def test_the_semisync_lane_fails_when_its_tests_fail() -> None:
    """A failing test fails the lane, and the servers go down all the same."""
    outside = Outside("pytest")

    assert lane(outside, engine=True).semisync() == 1
    assert " down " in outside.commands[-1]


@pytest.mark.parametrize(
    ("name", "series"), [("mysql80", "8.0"), ("mysql84", "8.4"), ("mysql9", "9.")]
)
def test_a_version_lane_fails_without_an_engine_or_named_servers(name: str, series: str) -> None:
    """A version's lane without an engine and without named servers fails and names both ways."""
    outside = Outside()

    with pytest.raises(LaneLacks, match=r"no Docker engine answers.*SPIRIT_PY_TEST_MYSQL_FILE"):
        LANES[name](lane(outside, engine=False))
    assert not outside.commands

    assert LANES[name](lane(outside, engine=True)) == 0
    environ = outside.environments[0]
    assert environ["SPIRIT_PY_LANE_MYSQL"] == series
    assert environ["SPIRIT_PY_TEST_MYSQL_IMAGE"].startswith(f"mysql:{series.rstrip('.')}")
    assert environ["SPIRIT_PY_LANE"]
    newer = "-m not vector and not logged_cascades"
    assert (newer in outside.commands[0]) == (series != "9.")


def test_the_file_position_lane_runs_without_gtids() -> None:
    """The lane of file positions has the usual server run without GTIDs."""
    outside = Outside()

    assert lane(outside, engine=False).file_position() == 0

    assert outside.environments[0]["SPIRIT_PY_LANE_GTID"] == "OFF"
    assert outside.environments[0][ENGINE_VARIABLE] == "spark"
    assert outside.commands[0].endswith("tests/integration -m not gtid -x")


@pytest.mark.parametrize("seed", ["", "7"])
def test_the_lane_of_delays_has_a_seed_that_repeats_it(seed: str) -> None:
    """It draws one, or takes the one that is named."""
    outside = Outside()
    assert lane(outside, engine=False, SPIRIT_PY_TEST_DELAYS=seed).delays() == 0
    drawn = outside.environments[0]["SPIRIT_PY_TEST_DELAYS"]
    assert drawn == seed if seed else drawn.isdecimal()


@pytest.mark.smoke
def test_the_gentle_lane_runs_what_the_usual_run_draws_from() -> None:
    """All tests with one of the two markers."""
    outside = Outside()
    assert lane(outside, engine=False).gentle() == 0
    assert outside.environments[0]["SPIRIT_PY_GENTLE"] == "all"
    assert outside.environments[0][ENGINE_VARIABLE] == "spark"
    assert f"{' '.join(DRAWN_FROM)} -m draws or slow" in outside.commands[0]
    for path in (ROOT / "tests").rglob("test_*.py"):
        if re.search(r"mark\.draws\(\d", path.read_text()):
            assert str(path.relative_to(ROOT)).startswith(DRAWN_FROM), path


@pytest.mark.smoke
@pytest.mark.parametrize("name", sorted(LANES))
def test_a_lane_runs_tests_that_are_there_and_may_not_skip_them(name: str) -> None:
    """What a lane passes to pytest exists; a skip there fails it. A program's lane runs ours."""
    outside = Outside()
    assert LANES[name](lane(outside, engine=name.startswith("mysql"), PATH=os.defpath)) == 0
    command, environ = outside.commands[-1], outside.environments[-1]
    named = re.findall(r"(?<!\S)(?:tests|ci)/\S+", command)
    assert named or name.startswith("mysql")
    assert all((ROOT / path).exists() for path in named)
    assert environ.get("SPIRIT_PY_LANE") == (
        None if {"ci/wheel_bare.py", "ci/image.py"} & set(named) else "1"
    )


def test_the_lane_of_tools_leaves_out_what_no_container_does() -> None:
    """A skip would fail it: a container is ended by its reaper."""
    for engine, more in ((True, " -m not local_server"), (False, "")):
        outside = Outside()
        assert lane(outside, engine=engine).tools() == 0
        assert outside.commands[0].endswith(f"-m pytest tests/tools{more} -x")


def test_the_cases_after_lane_plays_every_case() -> None:
    """The lane of late writes draws no cases: it plays all of them."""
    outside = Outside()

    assert lane(outside, engine=False).cases_after() == 0

    assert outside.environments[0]["SPIRIT_PY_CASES_AFTER"] == "all"
    assert outside.commands[0].endswith("tests/integration/test_cases_after.py -x")


def test_a_lane_that_cannot_run_names_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """The program's exit code is 1 for a lane that lacks something, 2 for an unknown lane."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    for name in ("SPIRIT_PY_TEST_MYSQL", "SPIRIT_PY_TEST_MYSQL_FILE"):
        monkeypatch.delenv(name, raising=False)

    assert main(["mysql80"]) == 1
    assert "lane mysql80: this lane needs MySQL 8.0" in capsys.readouterr().err
    assert main(["nothing"]) == 2


def test_a_terminated_lane_ends_what_it_runs(tmp_path: Path) -> None:
    """A lane that gets SIGTERM ends its child and has its cleanup done."""
    child, cleaned = tmp_path / "child", tmp_path / "cleaned"
    script = (
        "import contextlib, lane, pathlib, sys\n"
        "def held(this):\n"
        "    try:\n"
        f"        return this.run(['sh', '-c', 'echo $$ > {child}; exec sleep 99'], this.environ)\n"
        "    finally:\n"
        f"        pathlib.Path({str(cleaned)!r}).touch()\n"
        "lane.LANES['held'] = held\n"
        "sys.exit(lane.main(['held']))\n"
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "ci")}
    running = subprocess.Popen([sys.executable, "-c", script], env=environ, cwd=ROOT)
    assert wait_until(lambda: child.exists() and child.read_text().endswith("\n"), timeout=90)

    running.send_signal(signal.SIGTERM)

    assert running.wait(90) == 128 + signal.SIGTERM
    assert cleaned.exists()
    assert not Path(f"/proc/{child.read_text().strip()}").exists()


class Greets(StreamRequestHandler):
    """As much of MySQL's protocol as a named server has to speak."""

    def handle(self) -> None:
        """Name a version."""
        self.wfile.write(b"\x00\x00\x00\x00\x0a8.4.0\x00")


def test_a_command_that_has_a_server_cleans_up_before_that_ends(tmp_path: Path) -> None:
    """A lane that is ended ends `mysql_server.py run`, and that its command."""
    begun, cleaned = tmp_path / "begun", tmp_path / "cleaned"
    # The loop ends with its standard input: 1, where a read that took too long is above 128.
    loop = "while read -t 1 x || [ $? -gt 128 ]; do :; done"
    script = f"trap 'touch {cleaned}; exit' TERM; echo >{begun}; {loop}"
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(ThreadingTCPServer(("127.0.0.1", 0), Greets))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.shutdown)
        url = f"mysql://root@127.0.0.1:{server.server_address[1]}"
        command = [sys.executable, "ci/mysql_server.py", "run", "--", "bash", "-c", script]
        environ = {**os.environ, "SPIRIT_PY_TEST_MYSQL": url}
        running = stack.enter_context(
            subprocess.Popen(command, env=environ, cwd=ROOT, stdin=subprocess.PIPE)
        )
        stack.callback(running.kill)
        assert wait_until(begun.exists, timeout=DEADLINE)
        running.send_signal(signal.SIGTERM)
        assert running.wait(DEADLINE) == 128 + signal.SIGTERM
    assert cleaned.exists()


@pytest.mark.smoke
def test_every_lane_has_a_script_a_target_and_a_job() -> None:
    """Scripts, make targets and the workflow's matrix name the same lanes."""
    scripts = {path.name.removeprefix("lane-") for path in (ROOT / "ci").glob("lane-*")}
    targets = set(
        re.findall(r"^ci-([a-z0-9-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    )
    jobs = load(ROOT / ".github/workflows/lanes.yml")["jobs"]
    matrix = jobs.pop("lane")["strategy"]["matrix"]["lane"]
    steps = [step.get("run", "") for job in jobs.values() for step in job["steps"]]
    alone = [step.removeprefix("ci/lane-") for step in steps if step.startswith("ci/lane-")]

    assert scripts == targets == {*matrix, *alone} == set(LANES)
    assert all(os.access(ROOT / f"ci/lane-{name}", os.X_OK) for name in scripts)


@pytest.mark.smoke
def test_no_setting_of_a_shell_has_a_script_pass_without_its_tests(tmp_path: Path) -> None:
    """Each that runs tests leaves out more words for pytest, and what has tests write."""
    scripts = [one for one in (ROOT / "ci").iterdir() if one.is_file() and not one.suffix]
    texts = {one.name: one.read_text() for one in scripts if one.name != "screens"}
    running = {name for name, text in texts.items() if re.search(r"pytest -|ci/lane\.py", text)}
    assert {"test", "kills", "fuzz", "lane-rules"} <= running
    assert not {name for name in running if "\n. ci/prepare-tests\n" not in texts[name]}
    settings = ("PYTEST_ADDOPTS", "SPIRIT_PY_GOLDEN_UPDATE", "SPIRIT_PY_RENEW_SCREENS")
    prepared = prepared_in(tmp_path, **dict.fromkeys(settings, "--co"))
    assert not prepared.keys() & set(settings)
    assert prepared.get("TMPDIR") == os.environ.get("TMPDIR")


@pytest.mark.smoke
def test_tests_can_call_what_they_write_where_a_machine_executes_nothing_in_tmp(
    tmp_path: Path,
) -> None:
    """As with a /tmp that is mounted noexec: they failed in a dozen places, and none said why."""
    (tmp_path / "mktemp").write_text('#!/bin/sh\necho exit 126 >"$0.made"; echo "$0.made"\n')
    (tmp_path / "mktemp").chmod(0o755)
    prepared = prepared_in(tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert prepared["TMPDIR"] == f"{tmp_path}/.cache/t"
    assert Path(prepared["TMPDIR"]).is_dir()
    assert not (tmp_path / "mktemp.made").exists()


def prepared_in(folder: Path, **more: str) -> dict[str, str]:
    """Return the environment of a script there that has read ci/prepare-tests."""
    (folder / "bootstrap").write_text("#!/bin/sh\n")
    (folder / "bootstrap").chmod(0o755)
    read = (ROOT / "ci/prepare-tests").read_text().replace("ci/bootstrap", "./bootstrap")
    done = subprocess.run(
        ["bash", "-euc", f"{read}\nenv -0"],
        env={**os.environ, **more},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(line.split("=", 1) for line in done.stdout.split("\0") if line)


@pytest.mark.smoke
@pytest.mark.parametrize(("value", "on"), [("", False), ("0", False), ("1", True)])
@pytest.mark.parametrize(
    ("script", "name", "option"), [("simulate", "MOVES", "--moves"), ("faults", "KEEP", "--keep")]
)
def test_a_switch_of_make_that_is_0_is_off(
    script: str, name: str, option: str, value: str, *, on: bool, tmp_path: Path
) -> None:
    """`make simulate MOVES=0` simulated moves alone."""
    for place, text in (("ci/bootstrap", ""), (".venv/bin/python", 'echo "$@"')):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / place).chmod(0o755)
    shutil.copy(ROOT / "ci" / script, tmp_path / "ci")
    environ = {**os.environ, name: value}
    called = subprocess.run(
        [tmp_path / "ci" / script], env=environ, capture_output=True, text=True, check=True
    )
    assert (option in called.stdout.split()) == on


@pytest.mark.smoke
@pytest.mark.parametrize("step", ["fetch", "pytest"])
def test_an_interrupted_run_of_the_tests_leaves_no_check_behind(step: str, tmp_path: Path) -> None:
    """Lint and the wheel are run beside a fetch and the tests; they ignore Ctrl-C there.

    pytest ends at Ctrl-C with a code, and the checks took their half minute before that was passed
    on.
    """
    # A shell looks at what it has trapped between two commands.
    held = "until [ -s checked ]; do :; done; echo; while sleep 1; do :; done"
    fetch, run = (held, "") if step == "fetch" else ("", f"trap 'exit 2' INT; {held}")
    stubs = {
        "ci/prepare-tests": "",
        "ci/lint": "sleep 20 & echo $! >checked; wait; echo CHECKED",
        "ci/wheel": "",
        ".venv/bin/pytest": f'[ "$1" != -n ] || {{ {run or ":"}; }}',
        ".venv/bin/python": f'[ "$2" != fetch ] || {{ {fetch or ":"}; }}',
    }
    for name, text in stubs.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    shutil.copy(ROOT / "ci/test", tmp_path / "ci")
    with subprocess.Popen(
        # A shell cannot trap what it was started to ignore, as in the background of another one.
        ["env", "--default-signal=INT", tmp_path / "ci/test"],
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline() == b"\n"
        os.killpg(running.pid, signal.SIGINT)
        assert running.wait(DEADLINE)
        assert b"CHECKED" not in running.stderr.read()
    checked = int((tmp_path / "checked").read_text())
    assert wait_until(lambda: not alive(checked), timeout=DEADLINE)


@pytest.mark.smoke
@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_only_calls_scripts_of_ours(path: Path) -> None:
    """A step of a workflow is an action, or one call of a script or make target of ours."""
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    steps = [step for job in load(path)["jobs"].values() for step in job["steps"]]

    assert steps
    for step in steps:
        if "uses" in step:
            continue
        program, *words = step["run"].split(maxsplit=1)
        if program == "make":
            assert words[0] == "ci-${{ matrix.lane }}" or words[0] in targets
        else:
            assert (ROOT / program).is_file()
            assert not words


def test_the_compose_file_has_a_source_a_replica_and_late_acknowledgements() -> None:
    """The replica reaches the source through the proxy only, and both have semi-sync."""
    services = compose()
    assert set(services) == {"source", "late", "replica"}
    source, late, replica = (services[name] for name in ("source", "late", "replica"))

    assert "--plugin-load-add=semisync_source.so" in source["command"]
    assert "--loose-rpl-semi-sync-source-enabled=ON" in source["command"]
    assert "--plugin-load-add=semisync_replica.so" in replica["command"]
    assert "--loose-rpl-semi-sync-replica-enabled=ON" in replica["command"]
    for server in (source, replica):
        assert "--gtid-mode=ON" in server["command"]
        assert server["image"] == "${SPIRIT_PY_TEST_MYSQL_IMAGE:-mysql:8.4}"
        assert server["ports"][0].startswith("127.0.0.1:${SPIRIT_PY_SEMISYNC_")
        assert server["environment"]["MYSQL_ROOT_PASSWORD"].startswith("${SPIRIT_PY_SEMISYNC_PASSW")
    assert source["command"][0] != replica["command"][0] != ""
    assert "SEMISYNC_SOURCE" not in source["environment"]
    assert replica["environment"]["SEMISYNC_SOURCE"] == "late"
    assert "--to=source:3306" in late["command"]
    assert "--up-delay=${SPIRIT_PY_SEMISYNC_ACK_DELAY:-0.05}" in late["command"]


def test_a_compose_service_waits_for_what_it_needs() -> None:
    """Every service can say that it is healthy, and starts after what it depends on."""
    services = compose()

    assert all(service["healthcheck"]["test"][0] == "CMD" for service in services.values())
    waits = {name: service.get("depends_on", {}) for name, service in services.items()}
    healthy = {"condition": "service_healthy"}
    assert waits == {"source": {}, "late": {"source": healthy}, "replica": {"late": healthy}}
    assert not any("cap_add" in s or "privileged" in s for s in services.values())


def test_the_compose_file_mounts_only_what_exists() -> None:
    """The files that containers mount are in the repository; the proxy needs no package there."""
    for service in compose().values():
        for volume in service["volumes"]:
            given = re.sub(r"\$\{\w+:-(.*?)\}", r"\1", volume)
            assert (ROOT / given.split(":")[0]).is_file()
    # -I and -S: neither this project nor anything installed.
    command = [sys.executable, "-I", "-S", "tests/kits/tcp_proxy.py", "--help"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    options = [word for word in compose()["late"]["command"] if word.startswith("--")]
    assert all(word.split("=")[0] in shown for word in options)


@pytest.mark.parametrize(
    ("lane_set", "body", "code"),
    [
        ("1", "pytest.skip('no')", 1),
        ("1", "pass", 0),
        ("1", "pytest.xfail('no')", 1),
        ("", "pytest.skip('no')", 0),
    ],
)
def test_a_lane_fails_on_a_skip(tmp_path: Path, lane_set: str, body: str, code: int) -> None:
    """In a lane a skipped or expected failure fails the run and is named; elsewhere it does not."""
    (tmp_path / "test_it.py").write_text(f"import pytest\n\ndef test_it():\n    {body}\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.fixtures.lane",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, LANE_VARIABLE: lane_set, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == code, done.stdout + done.stderr
    assert ("a lane must not skip" in done.stdout) == bool(code)


def test_a_lane_refuses_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of another series than the lane's is refused; without a lane any will do."""
    monkeypatch.delenv("SPIRIT_PY_LANE_MYSQL", raising=False)
    check_series("9.7.4", "here")
    monkeypatch.setenv("SPIRIT_PY_LANE_MYSQL", "8.0")
    check_series("8.0.45", "here")
    with pytest.raises(pytest.UsageError, match=r"about MySQL 8.0, and the server here is 9.7.4"):
        check_series("9.7.4", "here")


@pytest.mark.smoke
@pytest.mark.parametrize("first", [date(2026, 11, 24), date(2026, 12, 31), date(2028, 2, 28)])
def test_each_slow_test_has_its_day(request: pytest.FixtureRequest, first: date) -> None:
    """Of days that follow each other one, whenever a month or a year ends; not the same for all."""
    days = [f"{first + timedelta(days=one):%Y%m%d}" for one in range(SLOW_DAYS)]
    drawn = set()
    for number in range(80):
        item = mock.Mock(nodeid=f"tests/integration/test_a.py::test[{number}]")
        item.get_closest_marker = {"slow": True}.get
        (own,) = (one for one in days if is_its_day(item, one))
        drawn.add(own)
    assert drawn == set(days)
    assert is_its_day(request.node, days[0])


@pytest.mark.parametrize(("given", "seed"), [((), crc32(b"one")), (("--randomly-seed=7",), 7)])
def test_the_order_of_the_tests_is_drawn_with_the_rest(given: Sequence[str], seed: int) -> None:
    """The command that repeats a failure names the draw alone; an order that is given stays."""
    file = "tests/tools/test_seconds.py"
    shown = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", *given, file],
        env=os.environ | {"SPIRIT_PY_DRAW": "one"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"--randomly-seed={seed}\n" in shown.stdout


def test_a_lane_that_installs_the_program_drops_its_schema(mysql: MySQLServer) -> None:
    """On a server that was named the next run would be refused; also after a failure."""
    for _ in range(2):
        with pytest.raises(Failed, match="the table has 1000 rows"), Server.of(mysql.url) as server:
            server.expect_columns("another")
    assert server.query("SHOW DATABASES LIKE 'bare'") == ()
