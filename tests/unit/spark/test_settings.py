"""How Spark is told to be a guest: settings, log, and the shipped package."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from spirit_py.config import SparkConfig
from spirit_py.errors import UsageFault
from spirit_py.spark.engine import SparkEngine
from spirit_py.spark.settings import (
    VERBOSE_LOG,
    embedded,
    log4j_properties,
    open_verbose_log,
    settings,
    ship_package,
    single_machine,
    unprotected,
)

SCRATCH = Path("/scratch")
SECRET = ("spark.authenticate.secret", "of-the-cluster")


def test_the_default_master_has_as_many_slots_as_threads():
    """And four tries of a task; a slot that no task needs costs nothing."""
    assert settings(SparkConfig(threads=1), SCRATCH)["spark.master"] == "local[1,4]"
    assert settings(SparkConfig(threads=100), SCRATCH)["spark.master"] == "local[100,4]"


def test_spark_opens_no_port_and_draws_no_progress_bar():
    """No port, no progress bar, no speculation (R18)."""
    conf = settings(SparkConfig(), SCRATCH)
    assert conf["spark.ui.enabled"] == "false"
    assert conf["spark.ui.showConsoleProgress"] == "false"
    assert conf["spark.speculation"] == "false"
    assert conf["spark.driver.host"] == "127.0.0.1"
    assert settings(SparkConfig(spark_ui=True), SCRATCH)["spark.ui.enabled"] == "true"


def test_the_operators_settings_win():
    """--spark-conf goes over ours."""
    options = SparkConfig(spark_conf=(("spark.driver.memory", "2g"), ("spark.x", "y")))
    conf = settings(options, SCRATCH)
    assert (conf["spark.driver.memory"], conf["spark.x"]) == ("2g", "y")


@pytest.mark.parametrize("name", ["spark.speculation", "spark.dynamicAllocation.enabled"])
def test_what_a_gang_cannot_have_stays_off(name):
    """Two attempts at one chunk would break the fence's promise (R18); a gang comes at once.

    Also where spark-defaults.conf of a cluster switches it on.
    """
    assert settings(SparkConfig(spark_master="yarn"), SCRATCH)[name] == "false"
    with pytest.raises(UsageFault, match="must stay off"):
        settings(SparkConfig(spark_conf=((name, "TRUE"),)), SCRATCH)


@pytest.mark.parametrize(
    "master",
    [
        "bogus",
        "local[0]",
        "local[x]",
        "local[1,2,3]",
        "local-cluster[1]",
        "localhost:7077",
        "spark://",
    ],
)
def test_a_master_that_spark_does_not_know_is_refused(master):
    """Spark itself would find out only after its start."""
    with pytest.raises(UsageFault, match="not a Spark master"):
        settings(SparkConfig(spark_master=master), SCRATCH)


@pytest.mark.parametrize(
    "master",
    [
        *("local", "local[*]", "local[2, 4]", "local-cluster[2,1,1024]", "yarn"),
        *("spark://a:7077,b:7077", "k8s://https://host:6443"),
    ],
)
def test_the_masters_of_spark_are_taken(master):
    """Every form in Spark's manual passes."""
    conf = settings(SparkConfig(spark_master=master, spark_conf=(SECRET,)), SCRATCH)
    assert conf["spark.master"] == master


def test_what_is_no_spark_setting_is_refused():
    """Spark would ignore it in silence."""
    with pytest.raises(UsageFault, match=r"--spark-conf executor\.memory is not a Spark setting"):
        settings(SparkConfig(spark_conf=(("executor.memory", "1g"),)), SCRATCH)


def test_the_master_has_an_option_of_its_own():
    """All that is asked of a master looks at that one: a cluster would be taken for local."""
    with pytest.raises(UsageFault, match=r"spark\.master") as refused:
        settings(SparkConfig(spark_conf=(("spark.master", "yarn"),)), SCRATCH)
    assert "--spark-master yarn" in refused.value.hint


def test_wrong_settings_are_refused_before_spark_is_started():
    """The engine's constructor, which runs before anything is written, looks at the settings."""
    with pytest.raises(UsageFault, match="speculation"):
        SparkEngine(SparkConfig(spark_conf=(("spark.speculation", "true"),)))


@pytest.mark.parametrize(
    ("master", "below", "single"),
    [
        ("", True, True),
        ("local", True, True),
        ("local[*]", True, True),
        ("local[3,4]", True, True),
        ("local-cluster[2,1,1024]", False, True),
        ("spark://host:7077", False, False),
        ("yarn", False, False),
    ],
)
def test_masters_are_told_apart(master, below, single):
    """Only a master on this machine may be given this machine's disk and addresses."""
    options = SparkConfig(spark_master=master, spark_conf=(SECRET,))
    assert (embedded(options), single_machine(options)) == (below, single)
    conf = settings(options, SCRATCH)
    assert ("spark.local.dir" in conf) is single
    assert ("spark.cores.max" in conf) is not below


def test_the_log_goes_to_a_file():
    """Warnings into the scratch folder, everything into the file of --verbose."""
    assert "rootLogger.level = warn" in log4j_properties(SparkConfig(), SCRATCH / "spark.log")
    verbose = log4j_properties(SparkConfig(verbose=True), Path("/dev/fd/7"))
    assert "rootLogger.level = info" in verbose
    assert "fileName = /dev/fd/7" in verbose
    assert "Console" not in verbose


def test_the_verbose_log_is_a_private_file_that_is_appended_to(tmp_path, monkeypatch):
    """Another user of the machine may wait for it in the working folder."""
    monkeypatch.chdir(tmp_path)
    for text in (b"one ", b"two"):
        handle = open_verbose_log()
        os.write(handle, text)
        os.close(handle)
    assert VERBOSE_LOG.read_bytes() == b"one two"
    assert VERBOSE_LOG.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("kind", "why"),
    [("link", "symbolic link"), ("pipe", "No such device"), ("another user's", "no file of the")],
)
def test_the_verbose_log_goes_through_nothing_of_others(tmp_path, monkeypatch, kind, why):
    """A link could lead to any file of ours; a pipe would be waited for."""
    monkeypatch.chdir(tmp_path)
    if kind == "link":
        Path("mine").write_text("mine")
        VERBOSE_LOG.symlink_to("mine")
    elif kind == "pipe":
        os.mkfifo(VERBOSE_LOG)
    else:
        VERBOSE_LOG.touch()
        owner = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(OSError, match=why):
        open_verbose_log()


def test_the_package_is_shipped_whole(tmp_path):
    """Executors get every module of the driver's package, and nothing else."""
    with zipfile.ZipFile(ship_package(tmp_path)) as archive:
        names = archive.namelist()
    assert "spirit_py/__init__.py" in names
    assert "spirit_py/copier/task.py" in names
    assert all(name.startswith("spirit_py/") and name.endswith(".py") for name in names)


@pytest.mark.parametrize(
    "master", ["", "local[2]", "local-cluster[2,1,1024]", "yarn", "k8s://https://host:6443"]
)
def test_every_port_of_spark_asks_for_a_secret(master):
    """R26: of the run, made by Spark or a cluster manager where these do it; else by us."""
    conf, other = (settings(SparkConfig(spark_master=master), SCRATCH) for _ in range(2))
    assert conf["spark.authenticate"] == "true"
    assert conf["spark.ui.killEnabled"] == "false"
    made = conf.get(SECRET[0], "")
    assert bool(made) is master.startswith("local-cluster")
    assert not made or (len(made) == 64 and made != other[SECRET[0]])
    # A large task, with the password, is a file on each executor's disk.
    for encrypted in ("spark.network.crypto.enabled", "spark.io.encryption.enabled"):
        assert conf.get(encrypted, "") == ("" if "local" in (master or "local") else "true")


@pytest.mark.parametrize("master", ["", "local[2]", "local-cluster[2,1,1024]"])
def test_authentication_stays_on_where_spark_is_on_one_machine(master):
    """R26: every user of the machine could read the password."""
    off = (("spark.authenticate", "False"),)
    with pytest.raises(UsageFault, match=r"spark\.authenticate must stay on"):
        settings(SparkConfig(spark_master=master, spark_conf=off), SCRATCH)


def test_a_cluster_has_a_secret_or_its_operator_does_without():
    """R26: a standalone cluster has one for all; whoever does without, or in the clear, is told."""
    master = "spark://host:7077"
    with pytest.raises(UsageFault, match="needs a secret") as refused:
        settings(SparkConfig(spark_master=master), SCRATCH)
    assert "SPIRIT_PY_SPARK_CONF=spark.authenticate.secret" in refused.value.hint
    secret = SparkConfig(spark_master=master, spark_conf=(SECRET,))
    conf = settings(secret, SCRATCH)
    assert (conf["spark.authenticate"], conf["spark.network.crypto.enabled"]) == ("true", "true")
    assert (unprotected(secret), "of-the-cluster" in repr(secret)) == ("", False)
    open_ports = SparkConfig(spark_master=master, spark_conf=(("spark.authenticate", "false"),))
    assert settings(open_ports, SCRATCH)["spark.authenticate"] == "false"
    assert "ask for no secret" in unprotected(open_ports)
    clear = (SECRET, ("spark.network.crypto.enabled", "false"))
    assert "encrypts nothing" in unprotected(SparkConfig(spark_master=master, spark_conf=clear))


def test_a_web_interface_of_a_cluster_needs_the_drivers_address():
    """R26: it listens on the loopback address, which executors cannot reach."""
    with pytest.raises(UsageFault, match="loopback"):
        settings(SparkConfig(spark_master="yarn", spark_ui=True), SCRATCH)
    named = (("spark.driver.host", "10.0.0.1"),)
    settings(SparkConfig(spark_master="yarn", spark_ui=True, spark_conf=named), SCRATCH)
