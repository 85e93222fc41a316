"""How the JVM is started: directly where nobody else has to do with it, else by spark-submit."""

from __future__ import annotations

import locale
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark
import pytest
from pyspark import java_gateway

import spirit_py
from spirit_py.config import SparkConfig
from spirit_py.spark.java import Java, without_secrets
from spirit_py.spark.launch import environment, launch, private
from spirit_py.spark.runtime import _connect
from spirit_py.spark.settings import settings

SPARK = Path(pyspark.__file__).parent
JAVA = Java("/opt/java/bin/java", 17)
HOST = ("spark.driver.host", "10.0.0.2")


def launched(tmp_path, config, environ=None):
    """Return how the JVM of a configuration is started."""
    conf = settings(config, tmp_path)
    given = {"PATH": "/bin"} if environ is None else environ
    return launch(config, conf, JAVA, bundled=SPARK, scratch=tmp_path, environ=given)


@pytest.mark.parametrize(
    "config",
    [
        SparkConfig(spark_master="local-cluster[2,1,1024]"),
        SparkConfig(
            spark_master="spark://host:7077", spark_conf=(("spark.authenticate.secret", "s3cret"),)
        ),
        SparkConfig(spark_ui=True),
        SparkConfig(spark_conf=(("spark.eventLog.enabled", "true"),)),
    ],
)
def test_what_others_have_to_do_with_goes_through_spark_submit(tmp_path, config):
    """A cluster, a web interface, a setting of the operator: spark-submit knows what each needs."""
    assert not private(config, {})
    how = launched(tmp_path, config)
    assert how.command[0] == str(SPARK / "bin" / "spark-submit")
    assert how.command[-1] == "pyspark-shell"
    assert how.environ["SPARK_HOME"] == str(SPARK)
    assert "spark.authenticate=true" in how.command
    assert not re.search("s3cret|authenticate.secret", " ".join(how.command))


@pytest.mark.parametrize(
    ("config", "loopback"),
    [
        (SparkConfig(spark_ui=True), True),
        (SparkConfig(spark_master="local-cluster[2,1,1024]"), True),
        (SparkConfig(spark_master="yarn"), False),
        (SparkConfig(spark_master="yarn", spark_conf=(("spark.ui.enabled", "true"), HOST)), True),
        (SparkConfig(spark_master="yarn", spark_ui=True, spark_conf=(HOST,)), True),
    ],
)
def test_a_web_interface_listens_on_the_loopback_address(tmp_path, config, loopback):
    """R26: it has no password. On a cluster without one Spark finds its address itself."""
    given = {"PATH": "/bin", "SPARK_LOCAL_IP": "10.0.0.1"}
    found = launched(tmp_path, config, given).environ["SPARK_LOCAL_IP"]
    assert found == ("127.0.0.1" if loopback else "10.0.0.1")


def test_options_for_spark_submit_reach_it(tmp_path):
    """SPARK_SUBMIT_OPTS of the operator goes behind the program's own options, so that it wins."""
    given = {"SPARK_SUBMIT_OPTS": "-Xshare:off"}
    assert not private(SparkConfig(), given)
    how = launched(tmp_path, SparkConfig(), given)
    assert how.environ["SPARK_SUBMIT_OPTS"].endswith(" -Xshare:off")


@pytest.mark.parametrize("master", ["", "local", "local[2,4]", "local[*]"])
def test_a_local_run_starts_java_itself(tmp_path, master):
    """No shell script, no second JVM, and no zip file of PySpark's sources for the workers."""
    config = SparkConfig(spark_master=master)
    assert private(config, {})
    how = launched(tmp_path, config)
    assert how.command[0] == JAVA.program
    assert "-Xmx512m" in how.command
    assert f"-Djava.io.tmpdir={tmp_path}" in how.command
    assert how.command[-1] == "org.apache.spark.api.python.PythonGatewayServer"
    assert "SPARK_HOME" not in how.environ


def test_workers_of_a_local_run_find_the_drivers_package_and_nothing_else(tmp_path):
    """A whole folder of packages in front would hide modules of Python itself."""
    how = launched(tmp_path, SparkConfig(), {"PYTHONPATH": "/theirs"})
    first, second = how.environ["PYTHONPATH"].split(os.pathsep)
    assert [each.name for each in Path(first).iterdir()] == ["spirit_py"]
    assert (Path(first) / "spirit_py").resolve() == Path(spirit_py.__file__).parent.resolve()
    assert second == "/theirs"


def test_secrets_stay_out_of_the_jvms_environment():
    """The JVM, and with it every local worker, inherits no setting of ours (R20)."""
    given = {
        "MYSQL_PWD": "x",
        "SPIRIT_PY_PASSWORD": "x",
        "SPIRIT_PY_PASSWORD_FILE": "x",
        "SPIRIT_PY_TARGET_PASSWORD": "x",
        "SPIRIT_PY_THROTTLE_HTTP": "x",
        "SPIRIT_PY_ON_EVENT": "x",
        # With it, PySpark writes the variables of a task that fails into Spark's log.
        "SPARK_TRACEBACK_WITH_LOCALS": "x",
        "HOME": "/h",
    }
    kept = environment(SparkConfig(), given)
    assert "x" not in kept.values()
    assert kept["HOME"] == "/h"


@pytest.mark.parametrize(
    "name",
    [
        *("fs.azure.account.key.store.dfs.core.windows.net", "fs.azure.sas.box.store"),
        *("fs.gs.auth.service.account.private.key", "fs.s3a.secret.key", "fs.s3a.session.token"),
        *("fs.s3a.encryption.key", "fs.s3a.server-side-encryption.key", "fs.gs.encryption.key"),
        "fs.azure.encryption.encoded.client-provided-key",
    ],
)
def test_the_keys_of_a_file_system_are_in_no_command(tmp_path, name):
    """R20: every user of the machine reads the commands of all, and Spark shows its settings."""
    given = ((f"spark.hadoop.{name}", "s3cr"), ("spark.hadoop.fs.x.unheard-of", "s3cr"))
    how = launched(tmp_path, SparkConfig(spark_conf=given))
    assert "s3cr" not in " ".join(how.command)
    redacted = next(word for word in how.command if word.startswith("spark.redaction.regex="))
    assert re.search(redacted.partition("=")[2], f"spark.hadoop.{name}")


class Going(Mapping[str, str]):
    """An environment whose last variable is gone when it is read, as by another thread."""

    def __init__(self, given: dict[str, str]) -> None:
        self._given = given

    def __getitem__(self, name: str) -> str:
        return self._given[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._given, "GONE"])

    def __len__(self) -> int:
        return len(self._given) + 1


def test_a_child_that_is_started_while_spark_starts_gets_nothing_of_its_jvm():
    """PySpark is told of it by the process's environment, which hooks and runs of a fleet get."""
    given = Going({"PYSPARK_GATEWAY_PORT": "1", "PYSPARK_GATEWAY_SECRET": "s", "HOME": "/h"})
    assert without_secrets(given) == {"HOME": "/h"}


def test_what_pyspark_is_told_replaces_no_variable_of_the_application(monkeypatch):
    """Its values are there again, and none is left that was not there."""
    told: dict[str, str] = {}
    monkeypatch.setattr(java_gateway, "launch_gateway", lambda: told.update(os.environ))
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "false")
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "7")
    monkeypatch.delenv("PYSPARK_GATEWAY_SECRET", raising=False)
    before = dict(os.environ)
    _connect(8, "s")
    assert (told["PYSPARK_GATEWAY_PORT"], told["PYSPARK_GATEWAY_SECRET"]) == ("8", "s")
    assert os.environ == before


def test_a_local_run_takes_no_configuration_of_the_machine():
    """SPARK_HOME of another version would be started instead; a cluster's users mean theirs."""
    given = {"SPARK_HOME": "/opt/spark", "SPARK_CONF_DIR": "/etc/spark"}
    # They go before spark.local.dir, and a private Spark deletes nothing there.
    given |= {"SPARK_LOCAL_DIRS": "/mnt/spark", "SPARK_EXECUTOR_DIRS": "/mnt/spark"}
    assert environment(SparkConfig(), given).keys() == {"LC_ALL"}
    cluster = environment(SparkConfig(spark_master="yarn"), given)
    assert cluster.items() >= given.items()


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, "C.UTF-8"),
        ({"LANG": "de_DE.ISO-8859-1"}, None),
        ({}, "C.UTF-8"),
        ({"LC_CTYPE": "C.utf8", "LANG": "C"}, None),
        ({"LANG": "de_DE.UTF-8"}, None),
    ],
)
def test_names_of_files_are_in_unicode(given, wanted, monkeypatch):
    """In the locale C no folder of an archive could have a name with other letters (measured)."""
    monkeypatch.setattr(locale, "setlocale", lambda _: "de_DE.UTF-8")
    assert environment(SparkConfig(), given).get("LC_ALL") == wanted


def test_a_locale_that_this_machine_lacks_is_the_locale_c():
    """The variable alone says UTF-8, where the JVM writes names in ASCII."""
    asked = (
        "import os; from spirit_py.config import SparkConfig as Config;"
        " from spirit_py.spark.launch import environment as of;"
        " print(of(Config(), os.environ)['LC_ALL'])"
    )
    environ = os.environ | {"LC_ALL": "xx_XX.UTF-8"}
    answer = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, check=True, env=environ
    )
    assert answer.stdout.strip() == "C.UTF-8"
