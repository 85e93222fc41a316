"""The binlog connection: the only importer of pymysqlreplication (and of PyMySQL).

Of the library only connecting, authentication, registration, the dump request and framing are used,
because (measured, 1.0.17) it reconnects by itself and sends again from the set it began with; its
iterator just ends at end of stream; it decodes rows lossily; its GTID sets have no tags.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import struct
from typing import TYPE_CHECKING, Any, Final

import pymysql
from pymysql.connections import Connection
from pymysql.constants import CLIENT
from pymysqlreplication import BinLogStreamReader

from spirit_py.binlog import wire
from spirit_py.binlog.packets import DumpPackets
from spirit_py.classes import KW_ONLY, InitVar, dataclass
from spirit_py.codes import ErrorCode
from spirit_py.errors import BinlogUnreadable, FeedFailure, PositionNotFound
from spirit_py.mysql.connect import another_server, identity
from spirit_py.mysql.faults import NO_METHOD, OTHER_METHOD
from spirit_py.mysql.own_sessions import claim
from spirit_py.mysql.tls import modes
from spirit_py.mysql.tls.driver import context_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spirit_py.binlog.position import FilePlace, GtidSet
    from spirit_py.config import ConnectionOptions
    from spirit_py.mysql.tls.modes import TlsAttempt

_COM_BINLOG_DUMP_GTID: Final = 0x1E
_THROUGH_GTID: Final = 0x04
_ERROR: Final = 0xFF
"""The status of a packet that holds an error."""
_PLUGIN_NOT_ALLOWED: Final = 2061
_IN_THE_CLEAR: Final = frozenset({b"mysql_clear_password", b"dialog"})
"""Plugins that send the password as it is."""
_OF_FILE: Final = frozenset({wire.ROTATE, wire.FORMAT_DESCRIPTION})
_FATAL_BINLOG_READ: Final = 1236
_NOT_GRANTED: Final = frozenset({1044, 1142, 1227})
#: The login was refused, or the password has to be changed first.
_NO_LOGIN: Final = frozenset({1045, 1130, 1820, 1862, 3118, 3955})
_GONE: Final = (
    *("purged", "could not find first log file", "could not find next log", "impossible position"),
    *("position > file size", "more gtids than", "has more gtids"),
)
_PASSING: Final = ("same server_uuid", "same server_id", "checksum", "being purged")
#: Messages of the server about bytes that are not an event, such as the middle of one.
_NO_EVENT: Final = ("exceeded max_allowed_packet", "in the middle of event", "bogus data")
_PLACEHOLDER: Final = "00000000-0000-0000-0000-000000000000:1"
_FIRST_SERVER_ID: Final = 1001
NET_WRITE_TIMEOUT: Final = 3600
"""Seconds that the server waits for a reader that reads nothing, before it gives up."""


class StreamLost(Exception):
    """The connection ended or fell silent; the reader opens another one."""


@dataclass(eq=False)
class BinlogConnection:
    """One open binlog dump: from ``place``, or without the transactions in ``gtids``.

    Raises StreamLost, also after ``silence`` seconds without a packet (R12); PositionNotFound;
    AnotherServer unless the server has ``server_uuid`` (R14); FeedFailure if the account may not
    read the binlog. The server ends an older dump of the same ``replica_uuid``.
    """

    options: ConnectionOptions
    _: KW_ONLY
    gtids: GtidSet | None
    place: FilePlace | None
    server_uuid: str
    replica_uuid: InitVar[str]
    heartbeat: InitVar[float]
    silence: float

    def __post_init__(self, replica_uuid: str, heartbeat: float) -> None:
        where: dict[str, Any] = {"auto_position": _PLACEHOLDER}
        if (place := self.place) is not None:
            where = {"log_file": place.file, "log_pos": place.offset, "resume_stream": True}
        reader = BinLogStreamReader(
            {},
            server_id=_FIRST_SERVER_ID + secrets.randbelow(2**32 - _FIRST_SERVER_ID),
            blocking=True,
            slave_uuid=replica_uuid,
            slave_heartbeat=heartbeat,
            pymysql_wrapper=self._open,
            enable_logging=False,
            **where,
        )
        with self._translated():
            # As fetchone() does first; from here on only the connection is used.
            reader._BinLogStreamReader__connect_to_stream()  # noqa: SLF001
            self._connection: Connection[Any] = reader._stream_connection  # noqa: SLF001
            # The answer to the last query was read to its end, and nothing came behind it.
            self._packets = DumpPackets(self._connection._rfile.readinto1)  # noqa: SLF001

    @property
    def id(self) -> int:
        """The server's number of this session."""
        return int(self._connection.thread_id())  # type: ignore[no-untyped-call]

    def read(self) -> Sequence[memoryview]:
        """Wait for events; return those that have come, valid until the next call.

        StreamLost also at the end of the stream (R12); PositionNotFound: the rest was purged.
        """
        with self._translated():
            events = self._packets.read()
            if not events:
                if self._packets.ending[0] == _ERROR:
                    pymysql.err.raise_mysql_exception(self._packets.ending)
                raise StreamLost("the server ended the stream")
            if self.place is not None and any(event[4] not in _OF_FILE for event in events):
                self.place = None
            return events

    def interrupt(self) -> None:
        """End a read that waits in another thread."""
        with contextlib.suppress(OSError, AttributeError):
            self._connection._sock.shutdown(socket.SHUT_RDWR)  # type: ignore[attr-defined]  # noqa: SLF001

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(Exception):
            self._connection._force_close()  # type: ignore[attr-defined]  # noqa: SLF001

    def _open(self, **_: object) -> Connection[Any]:
        ways = modes.attempts(self.options)
        for way in ways:
            try:
                connection = _DumpConnection(self.gtids, **self._settings(way))
                self._check_server(connection)
                self._claim(connection)
                return connection
            except pymysql.err.OperationalError as error:
                code, text = error.args[0], str(error.args[-1])
                if way == ways[-1] or not modes.next_may_do(way, code, text):
                    raise
            except RuntimeError as error:
                # Without TLS PyMySQL cannot encrypt a password that the server has forgotten.
                if way == ways[-1]:
                    said = f"cannot authenticate at {self.options.address}: {error}"
                    raise StreamLost(said) from error
        raise AssertionError("there is always one attempt to make")

    def _check_server(self, connection: Connection[Any]) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@GLOBAL.server_uuid")
            row = cursor.fetchone()
        found = row[0] if row else ""
        if found != self.server_uuid:
            connection.close()
            raise another_server(self.options.address, found=str(found), wanted=self.server_uuid)

    def _claim(self, connection: Connection[Any]) -> None:
        def query(sql: str) -> Sequence[Sequence[Any]]:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                rows: Sequence[Sequence[Any]] = cursor.fetchall()
                return rows

        number = int(connection.thread_id())  # type: ignore[no-untyped-call]
        claim(query, number, origin=self.options.origin, label=self.options.label)

    def _settings(self, way: TlsAttempt) -> dict[str, Any]:
        options = self.options
        settings: dict[str, Any] = {
            "user": options.user,
            # Of text it would take the letters of latin1.
            "password": options.password.encode(),
            "connect_timeout": options.connect_timeout,
            "read_timeout": self.silence,
            "write_timeout": self.silence,
            "charset": "utf8mb4",
            "autocommit": True,
            "program_name": "spirit-py",
            # The library says that it reads checksums only while the server writes them; older
            # files may have them. Each file says of itself whether it has.
            "init_command": "SET @source_binlog_checksum='CRC32', @master_binlog_checksum='CRC32',"
            f" SESSION net_write_timeout={NET_WRITE_TIMEOUT},"
            " SESSION sql_big_selects=1, SESSION max_execution_time=0, "
            + ", ".join(identity(options, "feed")),
        }
        if options.socket:
            settings["unix_socket"] = options.socket
        else:
            # The library compares the certificate with the name to which it connects.
            named = way.check is modes.CertificateCheck.IDENTITY
            host = modes.certificate_host(options) if named else modes.connecting_host(options)
            settings |= {"host": host, "port": options.port}
        if way.encrypted:
            settings["ssl"] = context_of(way, options.tls)
        else:
            settings["ssl_disabled"] = True
        return settings

    @contextlib.contextmanager
    def _translated(self) -> Any:
        try:
            yield
        except pymysql.err.MySQLError as error:
            raise self._translate(error) from error
        except (OSError, struct.error, AttributeError, ValueError) as error:
            # A connection that is closed under a read shows itself in any of these.
            raise StreamLost(f"the connection to {self.options.address} broke: {error}") from error

    def _translate(self, error: pymysql.err.MySQLError) -> Exception:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        text = str(error.args[1]) if len(error.args) > 1 else str(error)
        where = f"the binlog of {self.options.address}: {text} (error {code})"
        if code == _FATAL_BINLOG_READ:
            low = text.lower()
            if any(sign in low for sign in _PASSING):
                return StreamLost(where)
            if any(sign in low for sign in _GONE):
                hint = "start again; keep binlogs longer (binlog_expire_logs_seconds)"
                return PositionNotFound(f"cannot go on reading {where}", hint=hint)
            if self.place is not None and any(sign in low for sign in _NO_EVENT):
                return FeedFailure(
                    f"no event of the binlog begins at {self.place}: cannot read {where}",
                    hint="use a position as spirit-py printed it (--from)",
                    error_code=ErrorCode.WRONG_OPTIONS,
                )
            return BinlogUnreadable(f"cannot read {where}", hint="see the server's error log")
        if code in _NO_LOGIN or code in NO_METHOD:
            hint = "see whether the account is locked, or its password has changed or expired; then"
            hint += " run the same command again, with the password that it has"
            if code in NO_METHOD:
                hint = f"the change feed does not have the account's method: {OTHER_METHOD}"
            denied = ErrorCode.ACCESS_DENIED
            return FeedFailure(f"may not read {where}", hint=hint, error_code=denied)
        if code in _NOT_GRANTED:
            hint = "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* to the account"
            denied = ErrorCode.MISSING_PRIVILEGES
            return FeedFailure(f"may not read {where}", hint=hint, error_code=denied)
        return StreamLost(where)


class _DumpConnection(Connection):
    def __init__(self, gtids: GtidSet | None, **settings: Any) -> None:
        self._gtids = gtids
        self._must_encrypt = "ssl" in settings
        super().__init__(**settings)

    def _request_authentication(self) -> None:
        """Answer the greeting; PyMySQL before 1.2 goes on in the clear if it has no TLS."""
        offered: int = self.server_capabilities  # type: ignore[attr-defined]
        if self._must_encrypt and not offered & CLIENT.SSL:
            text = f"{modes.WITHOUT_TLS}, but the server does not support it"
            raise pymysql.err.OperationalError(modes.TLS_FAULT, text)
        super()._request_authentication()  # type: ignore[misc]

    def _process_auth(self, plugin_name: bytes, auth_packet: Any, handler: Any = None) -> Any:
        secure: bool = self._secure  # type: ignore[attr-defined]
        if plugin_name in _IN_THE_CLEAR and not secure:
            text = f"the server asks for the password in clear text ({plugin_name.decode()})"
            raise pymysql.err.OperationalError(_PLUGIN_NOT_ALLOWED, text)
        return super()._process_auth(plugin_name, auth_packet, handler)  # type: ignore[misc]

    def _write_bytes(self, data: bytes) -> None:
        if self._gtids is not None and data[4:5] == bytes([_COM_BINLOG_DUMP_GTID]):
            server_id = struct.unpack_from("<I", data, 7)[0]
            # COM_BINLOG_DUMP_GTID (MySQL source, ``rpl_source.cc``).
            encoded = self._gtids.encode()
            fields = (_COM_BINLOG_DUMP_GTID, _THROUGH_GTID, server_id, 3, 4, len(encoded))
            payload = struct.pack("<BHII3xQI", *fields) + encoded
            data = struct.pack("<I", len(payload)) + payload
        super()._write_bytes(data)  # type: ignore[misc]
