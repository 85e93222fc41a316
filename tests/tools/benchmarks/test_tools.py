"""How other tools are called: from their documentation, with no secret among the arguments."""

from pathlib import Path

import pytest

from benchmarks import tools
from benchmarks.sessions import Address

ADDRESS = Address(host="db1", port=3307, user="root", password="hush")
CALL = tools.Call(address=ADDRESS, alter="ENGINE=InnoDB", threads=2, folder=Path("folder"), help="")


def test_gh_ost_changes_the_table_on_the_primary_itself():
    """Options as in doc/command-line-flags.md: execute, allow-on-master, assume-rbr."""
    command = tools.gh_ost(CALL)
    assert command[0] == "gh-ost"
    assert {"--execute", "--allow-on-master", "--assume-rbr"} <= set(command)
    assert {"--host=db1", "--port=3307", "--alter=ENGINE=InnoDB"} <= set(command)
    assert "--database=spirit_py_bench" in command
    assert "--table=t" in command


def test_gh_ost_is_asked_to_drop_the_old_table_as_ours_does():
    """What one contender does after the swap, the other does, too."""
    assert "--ok-to-drop-table" in tools.gh_ost(CALL)


def test_gh_ost_keeps_its_files_in_the_folder_of_the_run():
    """A throttle file of somebody else's migration stops nothing here."""
    files = [word for word in tools.gh_ost(CALL) if "file=" in word]
    assert len(files) == 2
    assert all("=folder/" in word for word in files)


def test_spirit_is_given_the_whole_statement():
    """Options as in docs/migrate.md: host with port, statement, threads."""
    command = tools.spirit(CALL)
    assert command[:2] == ["spirit", "migrate"]
    assert "--host=db1:3307" in command
    assert "--statement=ALTER TABLE t ENGINE=InnoDB" in command
    assert "--threads=2" in command


def test_spirit_gets_as_many_writers_where_it_knows_the_option():
    """A version without the option is not called with it."""
    assert not [word for word in tools.spirit(CALL) if "write-threads" in word]
    known = tools.Call(**(vars(CALL) | {"help": "--write-threads=4  Number of writers"}))
    assert "--write-threads=2" in tools.spirit(known)


def test_pt_online_schema_change_reads_its_file_first():
    """Its manual: the file with defaults is the first argument, the table the last."""
    command = tools.pt_online_schema_change(CALL)
    assert command[:2] == ["pt-online-schema-change", "--defaults-file=folder/client.cnf"]
    assert command[-1] == "h=db1,P=3307,D=spirit_py_bench,t=t"
    assert {"--execute", "--alter=ENGINE=InnoDB"} <= set(command)


@pytest.mark.parametrize("tool", tools.TOOLS, ids=lambda tool: tool.name)
def test_no_password_is_an_argument(tool):
    """Every process of the machine can read the arguments of another (R20)."""
    assert not [word for word in tool.command(CALL) if "hush" in word]
    assert {f"--conf={CALL.credentials}", f"--defaults-file={CALL.credentials}"} & {
        *tool.command(CALL)
    }


def test_the_credentials_are_read_by_nobody_else(tmp_path, monkeypatch):
    """The file is the owner's alone, and has what both tools read."""
    tool = tmp_path / "spirit"
    tool.write_text("#!/bin/sh\necho --write-threads\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    call = tools.Call(**(vars(CALL) | {"folder": tmp_path}))
    command = tools.prepare(tools.TOOLS[1], call)
    assert "--write-threads=2" in command
    assert call.credentials.stat().st_mode & 0o077 == 0
    assert call.credentials.read_text() == "[client]\nuser=root\npassword=hush\n"


def test_only_tools_on_the_path_take_part(tmp_path, monkeypatch):
    """A tool that is not installed is no contender."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tools.found() == []
    (tmp_path / "gh-ost").touch(mode=0o755)
    assert [tool.name for tool in tools.found()] == ["gh-ost"]
