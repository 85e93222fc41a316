"""The container image, built as its Dockerfile says, migrates a table: by threads, and on Spark.

By Docker where an engine answers; otherwise by Debian's buildah in a chroot, on a Debian that
debootstrap makes, so that no registry is needed. The server is the one of SPIRIT_PY_TEST_MYSQL.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import MySQLdb

from mysql_container import engine_answers
from mysql_debian import FetchError
from mysql_server import SERVER_VARIABLE
from seeded_runs import end_on_sigterm
from wheel_bare import REPOSITORY, Failed, Server, bare_system, expect

if TYPE_CHECKING:
    from collections.abc import Callable

_DOCKERFILE: Final = "examples/container/Dockerfile"
_IMAGE: Final = "localhost/spirit-py-lane"
_BASE: Final = "localhost/spirit-py-lane-base"
_AUTHORITIES: Final = "/etc/ssl/certs/ca-certificates.crt"
_HERE: Final = "/etc/ssl/of-this-machine.crt"
_BUILDAH: Final = {"BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}


def main() -> int:
    """Build the image, go through the steps, remove it."""
    end_on_sigterm()
    try:
        image = _by_docker() if engine_answers(os.environ) else _by_buildah()
        try:
            with Server.of(os.environ[SERVER_VARIABLE]) as server:
                _steps(image, server)
        finally:
            image.remove()
    except (Failed, FetchError, MySQLdb.Error, subprocess.CalledProcessError) as error:
        print(f"image: {error}", file=sys.stderr)
        return 1
    return 0


def _steps(image: Image, server: Server) -> None:
    """Ask it, migrate a table with threads, then on Spark; ask for its health."""
    step("--version, account, completion")
    expect(image.must("spirit-py", "--version"), "mysqlclient")
    expect(image.must("id", "-u"), "10001")
    expect(
        image.must("cat", "/usr/share/bash-completion/completions/spirit-py"), "_SPIRIT_PY_COMPLETE"
    )
    given = {
        "SPIRIT_PY_HOST": f"{server.host}:{server.port}",
        "SPIRIT_PY_USER": server.user,
        "SPIRIT_PY_PASSWORD": server.password,
    }
    command = [
        "spirit-py",
        "migrate",
        "--database",
        "bare",
        "--table",
        "t",
        "--no-shortcut",
        "--alter",
    ]
    step("a table by threads")
    expect(image.must(*command, "ADD COLUMN a INT", **given), "swapped")
    step("the same on Spark")
    expect(
        image.must(*command, "ADD COLUMN b INT", "--spark-master", "local[1]", **given), "swapped"
    )
    server.expect_columns("id", "v", "a", "b")
    step("its health, and that of a server that is away")
    text = (REPOSITORY / _DOCKERFILE).read_text().replace("\\\n", " ")
    health = re.findall(r"^HEALTHCHECK .*? CMD (.+)$", text, re.MULTILINE)[0]
    image.must("sh", "-c", health, **given)
    if image.run("sh", "-c", health, **given | {"SPIRIT_PY_HOST": "127.0.0.1:1"}).returncode == 0:
        raise Failed("it counts as healthy without a server")
    print("image: the image migrates a table", file=sys.stderr)


def step(text: str) -> None:
    """Say what comes."""
    print(f"image: {text}", file=sys.stderr, flush=True)


class Image:
    """An image, and how commands run in it."""

    def __init__(self, prefix: list[str], remove: list[list[str]], environ: dict[str, str]) -> None:
        """Make it of the beginning of a command line, in which OPTIONS stands for variables."""
        self._prefix, self._remove, self._environ = prefix, remove, os.environ | environ

    def run(self, *command: str, **given: str) -> subprocess.CompletedProcess[str]:
        """Run a command with variables of the environment."""
        options = [part for name, value in given.items() for part in ("--env", f"{name}={value}")]
        place = self._prefix.index("OPTIONS")
        line = [*self._prefix[:place], *options, *self._prefix[place + 1 :]]
        return subprocess.run(
            [*line, *command], env=self._environ, capture_output=True, text=True, check=False
        )

    def must(self, *command: str, **given: str) -> str:
        """Run a command that has to succeed; return all that it prints, or raise Failed."""
        done = self.run(*command, **given)
        if done.returncode:
            raise Failed(f"{command[0]} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def remove(self) -> None:
        """Remove it."""
        for command in self._remove:
            subprocess.run(command, env=self._environ, check=False, stdout=subprocess.DEVNULL)


def _by_docker() -> Image:
    step("docker build")
    build = ["docker", "build", "--quiet", "-f", _DOCKERFILE, "-t", _IMAGE, "."]
    subprocess.run(build, cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL)
    run = ["docker", "run", "--rm", "--network", "host", "OPTIONS", "--entrypoint", "env", _IMAGE]
    return Image(run, [["docker", "rmi", "--force", _IMAGE]], {})


def _by_buildah() -> Image:
    environ = os.environ | _BUILDAH
    if shutil.which("buildah") is None:
        step("installing buildah")
        install = ["apt-get", "install", "-q", "-y", "--no-install-recommends", "buildah", "crun"]
        subprocess.run(install, env=environ | {"DEBIAN_FRONTEND": "noninteractive"}, check=True)

    def buildah(*words: str) -> str:
        done = subprocess.run(
            ["buildah", *words],
            cwd=REPOSITORY,
            env=environ,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    remove: list[list[str]] = []
    try:
        return _built(buildah, remove)
    except BaseException:
        Image([], remove, _BUILDAH).remove()
        raise


def _built(buildah: Callable[..., str], remove: list[list[str]]) -> Image:
    """Build base and image; what is there so far is in the list, also after a failure."""
    with tempfile.TemporaryDirectory(prefix="spirit-py-image-") as scratch:
        with bare_system(Path(scratch)) as system:
            # A mirror in between may have a certificate of its own, which no package replaces.
            shutil.copy(os.environ.get("PIP_CERT") or _AUTHORITIES, system.root / _HERE.lstrip("/"))
        tar = f"{scratch}/base.tar"
        subprocess.run(["tar", "-C", str(system.root), "-cf", tar, "."], check=True)
        shutil.rmtree(system.root)
        base = buildah("from", "scratch")
        remove.append(["buildah", "rm", base])
        buildah("add", "--quiet", base, tar, "/")
    buildah("config", "--env", f"PIP_CERT={_HERE}", base)
    buildah("commit", "--quiet", "--rm", base, _BASE)
    remove[:] = [["buildah", "rmi", "--force", _BASE]]
    step("buildah bud")
    buildah("bud", "--build-arg", f"BASE={_BASE}", "-f", _DOCKERFILE, "-t", _IMAGE, ".")
    container = buildah("from", _IMAGE)
    remove[:] = [["buildah", "rm", container], ["buildah", "rmi", "--force", _IMAGE, _BASE]]
    return Image(["buildah", "run", "OPTIONS", container, "--"], remove, _BUILDAH)


if __name__ == "__main__":
    sys.exit(main())
