"""What `examples/container` says fits the program and the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from spirit_py import __version__
from spirit_py.cli import main
from spirit_py.cli.outcome import EXIT_MEANINGS

ROOT = Path(__file__).parents[2]
HERE = ROOT / "examples" / "container"
COMPOSE = yaml.safe_load((HERE / "compose.yml").read_text())["services"]
JOB = yaml.safe_load((HERE / "job.yml").read_text())["spec"]
POD = JOB["template"]["spec"]
DOCKERFILE = (HERE / "Dockerfile").read_text()


@pytest.mark.parametrize("words", [COMPOSE["migrate"]["command"], POD["containers"][0]["args"]])
def test_the_commands_are_ones_that_the_program_takes(words):
    """Every option is known, and none is missing but the server and the account."""
    command, *arguments = words
    context = main.commands[command].make_context(command, arguments, resilient_parsing=False)
    assert (context.params["table"], context.params["alter"]) == (
        "orders",
        "ADD COLUMN note VARCHAR(200)",
    )


def test_the_server_and_the_account_come_from_the_environment():
    """By the variables of the options; the password is no argument."""
    job = {one["name"]: one for one in POD["containers"][0]["env"]}
    assert job.keys() == COMPOSE["migrate"]["environment"].keys()
    assert job.keys() == {"SPIRIT_PY_HOST", "SPIRIT_PY_USER", "SPIRIT_PY_PASSWORD"}
    assert "secretKeyRef" in job["SPIRIT_PY_PASSWORD"]["valueFrom"]


def test_a_job_begins_again_only_where_the_same_command_may_go_on():
    """Exit codes of a stop are begun again; those after which somebody has to look end the Job.

    So is a refusal: a server that is away as the pod begins, and a run that it takes for alive
    still, end with its code.
    """
    (rule,) = JOB["podFailurePolicy"]["rules"]
    stops = {130, 143}
    assert set(rule["onExitCodes"]["values"]) == EXIT_MEANINGS.keys() - stops - {0, 2}
    assert rule["onExitCodes"]["containerName"] == POD["containers"][0]["name"]


def test_the_probe_ends_before_kubernetes_gives_it_up():
    """A server that stands still is no reason to end the pod: its answer may take a minute."""
    probe = POD["containers"][0]["livenessProbe"]
    within, ((after, most),) = (
        probe["timeoutSeconds"],
        re.findall(r"timeout -k (\d+) (\d+) spirit-py", probe["exec"]["command"][-1]),
    )
    assert int(after) + int(most) < within


def test_a_pod_that_replaces_another_has_its_version():
    """Another one may refuse the checkpoint. Kubernetes asks for `latest` again for each pod."""
    _, tag = POD["containers"][0]["image"].split(":")
    assert tag == __version__
    for page in (ROOT / "docs/install.md", ROOT / "examples/container/Dockerfile"):
        assert set(re.findall(r"spirit-py:([\w.]+)", page.read_text("utf-8"))) == {__version__}


def test_nobody_is_root():
    """The image has the account that the Job asks for."""
    uid = POD["securityContext"]["runAsUser"]
    assert f"--uid {uid} " in DOCKERFILE
    assert f"\nUSER {uid}:{uid}\n" in DOCKERFILE
    assert DOCKERFILE.index("\nUSER ") < DOCKERFILE.index("\nENTRYPOINT ")


def test_what_is_copied_exists_and_is_sent_to_the_engine():
    """Nothing else of the folder is: no caches, no secrets."""
    allowed = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"
    }
    copied = [
        words.split()[:-1]
        for words in re.findall(r"^COPY (?!--from)(.*)", DOCKERFILE, re.MULTILINE)
    ]
    names = {name for words in copied for name in words}
    assert names == allowed
    assert all((ROOT / name).exists() for name in names)
