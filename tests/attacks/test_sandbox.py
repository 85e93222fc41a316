"""Developers who may create tables: one in a schema of his own, one in that of the migrated table.

The first has nothing to do with the migration. The second may ruin it, because he may write the
source table as well; but nothing of his is done with the migrator's rights.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from spirit_py.checkpoint.codec import to_text
from spirit_py.checkpoint.record import CheckpointRecord, Proofs, TableProgress, UncopiedRange
from spirit_py.mysql.tables.identity import Identity
from tests.attacks.victim import run
from tests.kits.command import command_line, environment, run_here
from tests.kits.held_command import ALTER, assert_migrated

pytestmark = pytest.mark.timeout(400)
ROBBERY = "GRANT ALL ON *.* TO developer"
HOSTILE = (f"1); {ROBBERY}; -- ", f"(SELECT 1) ; {ROBBERY}", "SLEEP(600)", "`", "\x1b[2J")
_MARKED = (
    "CREATE TABLE {0} (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, record LONGTEXT NOT NULL,"
    " written_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6))"
    " COMMENT = 'spirit-py checkpoint'"
)
#: To read the record then takes minutes, whatever max_execution_time is (71 s on one machine).
_ENDLESS = (
    "ALTER TABLE {0} ADD COLUMN record LONGTEXT GENERATED ALWAYS AS"
    " (INSTR(REPEAT('a', 200000), CONCAT(REPEAT('a', 100000), 'b'))) VIRTUAL"
)
#: Every id that a row may have, whatever it is for.
IDS = range(1, 17)


def forged(schema: str, uuid: str, text: str) -> list[str]:
    """Return rows as a run might have written them, with a text in each place that may have one."""
    progress = TableProgress(
        schema=schema, table="t", uncopied=(UncopiedRange(),), rows_copied=1, chunks=1
    )
    record = json.loads(
        to_text(
            CheckpointRecord(statement=ALTER, tables=(progress,), server_uuid=uuid, phase="copy")
        )
    )
    own = Identity(server=uuid, numbers=frozenset({1}), born=1)
    proofs = json.loads(to_text(Proofs(source=own, new=own, swap_begun=True)))
    pointer = {"format": record["format"], "home": [text, text], "program": text}
    record["position"] = record["settled_at"] = proofs["building"] = text
    for table in record["tables"]:
        table |= {"deferred": [text], "checked_up_to": [text], "target_shape": text}
        table["uncopied"] = [{"lower": [text], "upper": [text]}]
    return [json.dumps(row) for row in (record, proofs, pointer)]


def leave(session: Any, place: str, texts: list[str]) -> None:
    """Leave a table with the program's comment, and such rows under every number."""
    run(session, _MARKED.format(place))
    for number in IDS:
        text = texts[number % len(texts)]
        run(session, f"REPLACE INTO {place} (id, record) VALUES (%s, %s)", (number, text))


def rights(victim: Any) -> str:
    """Return all that the developer may do, in one text."""
    return " ".join(str(row[0]) for row in victim.db.query("SHOW GRANTS FOR developer"))


def test_a_marked_table_in_a_sandbox_is_nobody_elses_trouble(victim, tmp_path):
    """Status names it and shows the rest; a migration in another schema does not notice it."""
    # Of the tables that a record names, the first has it: a schema that comes before the other.
    sandbox = f"0{victim.db.name}"
    victim.db.execute(f"CREATE DATABASE `{sandbox}`")
    victim.db.execute("GRANT SELECT ON *.* TO migrator")
    try:
        developer = victim.attacker("developer", f"ALL ON `{sandbox}`.*")
        ((uuid,),) = victim.db.query("SELECT @@server_uuid")
        for number, text in enumerate(HOSTILE):
            leave(developer, f"`{sandbox}`.`_t{number}_chkpnt`", forged(sandbox, uuid, text))
        run(developer, f"CREATE TABLE `{sandbox}`._x_chkpnt (a INT) COMMENT 'spirit-py checkpoint'")
        foreign = forged(victim.db.name, uuid, "shop")[:1]
        leave(developer, f"`{sandbox}`._f_chkpnt", foreign)
        claiming = json.loads(forged(sandbox, uuid, "shop")[0])
        claiming["tables"] += json.loads(foreign[0])["tables"]
        leave(developer, f"`{sandbox}`._t_chkpnt", [json.dumps(claiming)])
        for name, mark in (("_e_chkpnt", "spirit-py checkpoint"), ("e_batch", "spirit-py batch")):
            place = f"`{sandbox}`.{name}"
            run(developer, f"CREATE TABLE {place} (id INT PRIMARY KEY) COMMENT = '{mark}'")
            run(developer, f"INSERT INTO {place} VALUES (1)")
            run(developer, _ENDLESS.format(place))
        with victim.migrating(tmp_path) as (command, listener):
            hold = listener.hold("chunk.committed")
            command.wait_held(hold)
            words = command_line(victim.migrator, "status")
            del words[words.index("--database") :]
            shown = run_status(victim, words)
            hold.release()
            command.finish()
        assert f"{victim.db.name}.t" in shown
        assert "_x_chkpnt" in shown
        assert f"it names {victim.db.name}.t, whose checkpoint does not name it" in shown
        assert f"it is of {victim.db.name}.t, and not of the table beside {sandbox}._f" in shown
        assert "\x1b" not in shown
        assert_migrated(victim.db)
        assert "ON *.*" not in rights(victim).replace("USAGE ON *.*", "")
    finally:
        victim.db.execute(f"DROP DATABASE `{sandbox}`")


def run_status(victim: Any, words: list[str]) -> str:
    """Run ``status`` over all schemas; return what it says."""
    done = subprocess.run(
        words,
        env=environment(victim.migrator),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.parametrize("before", ["0", "z"])
def test_a_forged_way_back_swaps_back_no_table_of_another_schema(victim, before):
    """Also where the record is that of the schema that comes first, and no note proves the rest."""
    sandbox = f"{before}{victim.db.name}"
    victim.db.execute(f"CREATE DATABASE `{sandbox}`")
    victim.db.execute(f"GRANT ALL ON `{sandbox}`.* TO migrator")
    kept = ("--alter", ALTER, "--no-shortcut", "--drop-old-after", "never")
    at = f"`{sandbox}`._t_chkpnt"
    try:
        developer = victim.attacker("developer", f"ALL ON `{sandbox}`.*")
        victim.db.execute(f"CREATE TABLE `{sandbox}`.t SELECT * FROM t")
        victim.db.execute(f"ALTER TABLE `{sandbox}`.t ADD PRIMARY KEY (id)")
        for more in ((), ("--database", sandbox)):
            done = run_here(victim.migrator, "migrate", *kept, *more)
            assert done.returncode == 0, done.stderr
        query = "SELECT record FROM {} WHERE id = 2"
        places = (at, "_t_chkpnt") if before == "0" else ("_t_chkpnt", at)
        home, other = (json.loads(victim.db.query(query.format(one))[0][0]) for one in places)
        home["tables"] += other["tables"]
        run(developer, f"REPLACE INTO {at} (id, record) VALUES (2, %s)", (json.dumps(home),))
        for noted in (True, False):
            if not noted:
                # As a tool of another kind leaves its old table.
                victim.db.execute("DROP TABLE _t_chkpnt")
            left = victim.db.query("SHOW TABLES"), victim.db.query("SHOW CREATE TABLE t")
            done = run_here(victim.migrator, "revert", "--database", sandbox)
            assert done.returncode == 2, done.stderr
            assert f"with {victim.db.name}.t, which" in done.stderr or before == "z", done.stderr
            assert (victim.db.query("SHOW TABLES"), victim.db.query("SHOW CREATE TABLE t")) == left
        for name in ("_t_old", "t"):
            victim.db.execute(f"DROP TABLE {name}")
    finally:
        victim.db.execute(f"DROP DATABASE `{sandbox}`")


@pytest.mark.parametrize("text", [HOSTILE[0], HOSTILE[2]])
def test_what_a_developer_left_before_the_first_run_is_not_executed(victim, text):
    """Neither by status, a rehearsal, a migration, a revert nor a cleanup (R26)."""
    developer = victim.attacker("developer", "CREATE, DROP, INSERT, SELECT, DELETE ON {schema}.*")
    before = rights(victim)
    ((uuid,),) = victim.db.query("SELECT @@server_uuid")
    place = f"`{victim.db.name}`._t_chkpnt"
    migrate = ("migrate", "--alter", ALTER, "--no-shortcut")
    commands = (
        ("status",),
        (*migrate, "--dry-run"),
        migrate,
        ("ctl", "status"),
        ("revert",),
        ("cleanup",),
    )
    leave(developer, place, forged(victim.db.name, uuid, text))
    for words in commands:
        done = run_here(victim.migrator, *words)
        assert done.returncode in {0, 1, 2}, f"{words}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr, f"{words}: {done.stderr}"
        assert "\x1b" not in done.stdout + done.stderr
        assert rights(victim) == before, words
    ((count,),) = victim.db.query("SELECT COUNT(*) FROM t")
    assert count == 3000
