"""The options that say how a server is reached: the source's, and another one's."""

from typing import Annotated, Final, TypedDict

from spirit_py.config import DEFAULT_PORT
from spirit_py.options import (
    BEGIN,
    CONNECTION,
    TARGET,
    AnyPath,
    Dsn,
    FileRead,
    Password,
    SslMode,
)

_SSL_MODE: Final = "As the mysql client's: whether TLS is used, and what is verified."
_SOURCES_TLS: Final = " [default: the source's, if no --target-ssl option is given]"


class ConnectionArguments(TypedDict, total=False):
    """How to reach the server.

    Option files are read only if named, or for ``no_defaults=False``. ``password`` may be a
    function, called once, when the run is prepared.
    """

    host: Annotated[str, BEGIN(first=True), "Server, as host or host:port."]
    user: Annotated[
        str, BEGIN(first=True), "User name. [default: the option file's, or the login name]"
    ]
    password: Annotated[
        Password,
        BEGIN(first=True, variables=("MYSQL_PWD",)),
        "Password; asked for when given without a value.",
    ]
    port: Annotated[int, CONNECTION(least=1, most=65535), f"TCP port. [default: {DEFAULT_PORT}]"]
    socket: Annotated[str, CONNECTION(), "Unix socket, instead of host and port."]
    dsn: Annotated[
        Dsn,
        CONNECTION(default="", metavar="URL"),
        "All of these as mysql://user@host:port/schema; explicit options take precedence,"
        " but another host is refused.",
    ]
    login_path: Annotated[
        str, CONNECTION(default=""), "Group of ~/.mylogin.cnf, as mysql_config_editor writes it."
    ]
    defaults_file: Annotated[
        FileRead,
        CONNECTION(),
        "Read this MySQL option file and no other: its groups [client] and [spirit-py]. [default:"
        " /etc/my.cnf, /etc/mysql/my.cnf, ~/.my.cnf]",
    ]
    defaults_extra_file: Annotated[FileRead, CONNECTION(), "Read this one too, before ~/.my.cnf."]
    defaults_group_suffix: Annotated[
        str, CONNECTION(default=""), "Read the groups with this suffix, too."
    ]
    no_defaults: Annotated[bool, CONNECTION(), "Read no option file but a login path."]
    ssl_mode: Annotated[
        SslMode, CONNECTION(), f"{_SSL_MODE} [default: VERIFY_CA with --ssl-ca, else PREFERRED]"
    ]
    ssl_ca: Annotated[AnyPath, CONNECTION(), "CA certificates, a PEM file."]
    ssl_capath: Annotated[AnyPath, CONNECTION(), "Folder of CA certificates."]
    ssl_cert: Annotated[AnyPath, CONNECTION(), "Client certificate, PEM."]
    ssl_key: Annotated[AnyPath, CONNECTION(), "Its private key, PEM."]


class TargetServer(TypedDict, total=False):
    """How to reach the target's server; what is not given is the source's."""

    target_host: Annotated[
        str, TARGET(common=True), "Its server, as host or host:port. [default: --host]"
    ]
    target_port: Annotated[int, TARGET(least=1, most=65535), "[default: --port]"]
    target_socket: Annotated[str, TARGET(), "[default: --socket]"]
    target_user: Annotated[str, TARGET(), "[default: --user]"]
    target_password: Annotated[
        Password, TARGET(), "Asked for when given without a value. [default: --password]"
    ]
    target_defaults_file: Annotated[
        FileRead,
        TARGET(),
        "MySQL option file for the target's server; what it leaves out is the source's.",
    ]
    target_ssl_mode: Annotated[SslMode, TARGET(), _SSL_MODE + _SOURCES_TLS]
    target_ssl_ca: Annotated[AnyPath, TARGET(), f"CA certificates, a PEM file.{_SOURCES_TLS}"]
    target_ssl_capath: Annotated[AnyPath, TARGET(), f"Folder of CA certificates.{_SOURCES_TLS}"]
    target_ssl_cert: Annotated[AnyPath, TARGET(), f"Client certificate, PEM.{_SOURCES_TLS}"]
    target_ssl_key: Annotated[AnyPath, TARGET(), f"Its private key, PEM.{_SOURCES_TLS}"]


class TargetOptions(TargetServer, total=False):
    """Which table another is compared with."""

    target_database: Annotated[str, TARGET(common=True), "Its schema. [default: --database]"]
    target_table: Annotated[str, TARGET(common=True), "Table to compare with. [default: --table]"]
