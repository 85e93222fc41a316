"""A throwaway MySQL in a container, where a Docker engine answers."""

from __future__ import annotations

import http.client
import importlib
import secrets
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mysql_base import MySQLServer, ServerError, ServerOptions, free_port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Has all that tests ask for: a lane fails for what it has to skip on an older one.
DEFAULT_IMAGE = "mysql:9"
DEFAULT_ENGINE = "unix:///var/run/docker.sock"
MYSQL_PORT = 3306


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=5)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def engine_answers(environ: Mapping[str, str]) -> bool:
    """Whether the Docker engine that DOCKER_HOST names, or the default one, answers a ping."""
    parts = urlsplit(environ.get("DOCKER_HOST") or DEFAULT_ENGINE)
    if parts.scheme == "unix":
        link: http.client.HTTPConnection = _UnixConnection(parts.path)
    elif parts.scheme in {"tcp", "http"} and parts.hostname:
        link = http.client.HTTPConnection(parts.hostname, parts.port or 2375, timeout=5)
    else:
        return False
    try:
        link.request("GET", "/_ping")
        return link.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        link.close()


def _published(container: Any, port: int) -> int | tuple[str, int]:
    """Return where a port is published: to this machine alone, where the tests are on it too."""
    client = container.get_docker_client()
    here = client.get_connection_mode().name == "docker_host" and client.host() == "localhost"
    return ("127.0.0.1", port) if here else port


class ContainerServer(MySQLServer):
    """MySQL from an image; stop removes the container, and otherwise its reaper does."""

    def __init__(self, image: str) -> None:
        """Prepare to run `image`; nothing is pulled yet."""
        self.image = image
        self.origin = f"container {image}"
        self._container: Any = None
        self._options = ServerOptions()

    def pull(self) -> None:
        """Fetch the image, and that of the reaper, unless they are there."""
        try:
            docker = importlib.import_module("docker")
            reaper = importlib.import_module("testcontainers.core.config").testcontainers_config
        except ImportError as error:
            raise self._failed(error) from error
        try:
            images = docker.from_env().images
            for image in (self.image, *(() if reaper.ryuk_disabled else (reaper.ryuk_image,))):
                try:
                    images.get(image)
                except docker.errors.ImageNotFound:
                    images.pull(image)
        # What `requests` raises of a time that is over is an OSError.
        except (docker.errors.DockerException, OSError) as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> ServerError:
        return ServerError(f"Docker could not run {self.image}: {error}")

    def start(self, options: ServerOptions | None = None) -> None:
        """Start a fresh container; nothing remains after a failure."""
        self._options = options or ServerOptions()
        self.password = secrets.token_hex(12)
        errors = importlib.import_module("docker.errors")
        try:
            self._run()
        except (errors.DockerException, OSError) as error:
            self.stop()
            raise self._failed(error) from error
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Remove the container and its data; safe to call twice."""
        container, self._container = self._container, None
        if container is not None:
            container.stop()

    def restart(self, *, extra: Sequence[str] = ()) -> None:
        """Restart the container; a container cannot be given more options."""
        if extra:
            message = f"a container keeps its options: cannot restart it with {' '.join(extra)}"
            raise ServerError(message)
        self._wrapped().restart()
        self.await_greeting()

    def kill(self) -> None:
        """Kill the container; its data stays as a crash leaves it."""
        self._wrapped().kill()

    def resume(self) -> None:
        """Start the container again on its data."""
        self._wrapped().start()
        self.await_greeting()

    def peer_address(self) -> tuple[str, int]:
        """Return the container's own address in Docker's network."""
        wrapped = self._wrapped()
        wrapped.reload()
        networks: dict[str, Any] = wrapped.attrs["NetworkSettings"]["Networks"]
        return next(str(one["IPAddress"]) for one in networks.values()), MYSQL_PORT

    def _run(self) -> None:
        # Imported here: only this provider needs more than the standard library.
        library = importlib.import_module("testcontainers.core.container")
        # A fixed port, because one assigned by Docker changes with every restart.
        port = free_port()
        container = (
            library.DockerContainer(self.image)
            .with_env("MYSQL_ROOT_PASSWORD", self.password)
            .with_env("MYSQL_ROOT_HOST", "%")
            .with_command(self._options.arguments(self.server_id))
        )
        self._container = container
        # `with_bind_ports` knows no address.
        container.ports[f"{MYSQL_PORT}/tcp"] = _published(container, port)
        container.start()
        self.host = container.get_container_host_ip()
        # "localhost" would mean a socket file; the server is reached over TCP only.
        self.host = "127.0.0.1" if self.host == "localhost" else self.host
        self.port = port
        self.await_greeting()

    def _wrapped(self) -> Any:
        if self._container is None:
            message = "the container has not been started, or has been stopped already"
            raise ServerError(message)
        return self._container.get_wrapped_container()
