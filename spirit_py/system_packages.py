"""What the operating system has to bring, and the commands that install it (pure)."""

from __future__ import annotations

from typing import Final

OLDEST_JAVA: Final = 17
"""Spark 4 runs on Java 17 and 21 (Spark documentation, Overview)."""

JAVA: Final = (
    f"install a Java runtime {OLDEST_JAVA} or later, or point JAVA_HOME at one:"
    f" apt-get install openjdk-{OLDEST_JAVA}-jre-headless (Debian, Ubuntu),"
    " dnf install java-21-openjdk-headless (Fedora),"
    f" brew install openjdk@{OLDEST_JAVA} (macOS)"
)
CLIENT_LIBRARY: Final = (
    "install the MySQL client library that mysqlclient was built with:"
    " apt-get install libmariadb3 (Debian, Ubuntu),"
    " dnf install mariadb-connector-c (Fedora),"
    " brew install mysql-client (macOS); or build mysqlclient again:"
    " pip install --force-reinstall --no-binary mysqlclient mysqlclient"
)
