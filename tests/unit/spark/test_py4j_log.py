"""What Py4J logs when a connection to the JVM is lost."""

import logging
import socket

from py4j.java_gateway import GatewayClient, GatewayParameters

from spirit_py.spark.runtime import keep_own_logger


def test_a_lost_connection_to_the_jvm_gives_the_root_logger_no_handler(monkeypatch, caplog):
    """An application that has not set up logging still has not, and Py4J's logger has the line."""
    keep_own_logger()
    # Whatever level the command line has set in this process.
    caplog.set_level(logging.DEBUG, logger="py4j.java_gateway")
    root, records = logging.getLogger(), []
    monkeypatch.setattr(root, "handlers", [])

    class Kept(logging.NullHandler):
        def handle(self, record):
            records.append(record.getMessage())
            return True

    logger = logging.getLogger("py4j.java_gateway")
    monkeypatch.setattr(logger, "handlers", [Kept(logging.DEBUG)])
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = GatewayClient(gateway_parameters=GatewayParameters(port=server.getsockname()[1]))
        client.deque.append(client._create_connection())
        server.accept()[0].close()
        client.send_command("x\n", retry=False)
    assert root.handlers == []
    assert "Exception while sending command." in records
