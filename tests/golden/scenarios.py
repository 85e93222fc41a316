"""The runs whose outputs are recorded: each is data, and what is done meanwhile is data as well."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Action: TypeAlias = "tuple[str, ...]"
"""What is done while a run is under way: a word, and its arguments.

``fail``: the run is ended by an error of its own; ``sql S``: the statement is executed; ``aged N``:
nothing, until the oldest transaction of the server is so many seconds old;
``ctl WORDS`` and ``run WORDS``: the command runs in a process of its own, its answer is recorded;
``background WORDS``: the same, and the answer comes when the run has ended; ``status PHASE NAME``:
what ``status`` shows of the run is recorded, once it is in this phase and has this live figure.
"""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command.

    Attributes:
        words: the command and its options, without those that name server, schema and outputs.
        at: what is done in the run itself when it first reaches a named point.
        during: what another client does once the run has reported this event.
        before: SQL that is executed before it.
    """

    words: Action
    at: Mapping[str, tuple[Action, ...]] = field(default_factory=dict)
    during: Mapping[str, tuple[Action, ...]] = field(default_factory=dict)
    before: str = ""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Some commands, one after another.

    Attributes:
        tables: SQL that makes the tables; by default :data:`TABLE` with :data:`ROWS` rows.
        whole: everything is recorded, also what is empty or only a placeholder.
    """

    name: str
    steps: tuple[Step, ...]
    tables: str = ""
    whole: bool = False


ROWS: Final = 300
TABLE: Final = (
    "CREATE TABLE {name} (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(50), KEY by_a (a))"
)
FILL: Final = (
    "INSERT INTO {name} WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <"
    f" {ROWS}) SELECT i, i * 3, CONCAT('row ', i) FROM n"
)


def tables(*names: str) -> str:
    """Return the SQL that makes tables with rows, and notes how many."""
    return "; ".join(
        "; ".join((TABLE.format(name=name), FILL.format(name=name), f"ANALYZE TABLE {name}"))
        for name in names
    )


ALTER: Final = "MODIFY a BIGINT, ADD COLUMN z INT NOT NULL DEFAULT 5"
COPY: Final = ("migrate", "--table", "t", "--alter", ALTER, "--no-shortcut", "--threads", "1")
FAIL: Final[tuple[Action, ...]] = (("fail",),)
STATUS: Final = Step(words=("status", "--json"))
CLEAN: Final = Step(words=("cleanup", "--table", "t", "--yes"))


def change(alter: str, *more: str) -> Action:
    """Return the command that changes the table ``t``."""
    return ("migrate", "--table", "t", "--alter", alter, "--threads", "1", *more)


def plan(alter: str) -> Action:
    """Return the command that plans a change of the table ``t``."""
    return ("plan", "--table", "t", "--alter", alter, "--threads", "1", "--format", "json")


def failed_at(name: str, point: str, *more: str, after: tuple[Step, ...] = (STATUS,)) -> Scenario:
    """Return the scenario of a run that fails at a point, and what is left of it."""
    failing = Step(words=(*COPY, *more), at={point: FAIL})
    return Scenario(name=name, steps=(failing, *after))


SCENARIOS: Final = (
    Scenario(name="copy", whole=True, steps=(Step(words=COPY), STATUS)),
    Scenario(name="lines_of_text", steps=(Step(words=(*COPY, "--log-format", "text")),)),
    Scenario(name="instant", steps=(Step(words=change("ADD COLUMN z INT")),)),
    Scenario(name="inplace", steps=(Step(words=change("MODIFY b VARCHAR(60)")),)),
    Scenario(name="index_added", steps=(Step(words=change("ADD INDEX by_b (b)")),)),
    Scenario(name="noop", steps=(Step(words=change("MODIFY a INT")),)),
    Scenario(name="dry_run", steps=(Step(words=(*COPY, "--dry-run")),)),
    Scenario(
        name="resumed",
        whole=True,
        steps=(Step(words=COPY, at={"checksum.begin": FAIL}), STATUS, Step(words=COPY)),
    ),
    failed_at("failed_preflight", "preflight.done"),
    failed_at("failed_create", "create.built"),
    failed_at("failed_copy", "chunk.dispatched", after=(STATUS, CLEAN)),
    failed_at("failed_index", "index.begin", "--defer-indexes", "on"),
    failed_at("failed_drain", "drain.begun"),
    failed_at("failed_cutover", "cutover.begin"),
    failed_at("failed_cleanup", "cleanup.old_table", after=(STATUS, Step(words=COPY))),
    Scenario(
        name="aborted",
        steps=(
            Step(
                words=(*COPY, "--defer-cutover"),
                during={"cutover.deferred": (("background", "ctl", "abort"),)},
            ),
            STATUS,
        ),
    ),
    Scenario(
        name="paused",
        steps=(
            Step(
                words=COPY,
                at={
                    "chunk.dispatched": (
                        ("ctl", "pause"),
                        ("status", "copy", "paused"),
                        ("ctl", "set", "nice=0.5", "max-lag=5s"),
                        ("ctl", "resume"),
                    )
                },
            ),
        ),
    ),
    Scenario(
        name="deferred_cutover",
        whole=True,
        steps=(
            Step(
                words=(*COPY, "--defer-cutover"),
                during={
                    "cutover.deferred": (("status", "sentinel", "waiting_for"), ("ctl", "cutover"))
                },
            ),
        ),
    ),
    Scenario(
        name="several_tables",
        tables=tables("t", "u"),
        steps=(
            Step(
                words=(
                    *("migrate", "--threads", "1", "--no-shortcut", "--statement"),
                    "ALTER TABLE t ADD COLUMN z INT; ALTER TABLE u ADD COLUMN z INT",
                )
            ),
        ),
    ),
    Scenario(name="deferred_indexes", steps=(Step(words=(*COPY, "--defer-indexes", "on")),)),
    Scenario(
        name="reverted",
        whole=True,
        steps=(
            Step(
                words=(*COPY, "--keep-old-current", "1h"),
                during={"reverse.begun": (("status", "keep"), ("run", "revert", "--table", "t"))},
            ),
            STATUS,
        ),
    ),
    Scenario(
        name="reverse_ended",
        steps=(
            Step(
                words=(*COPY, "--keep-old-current", "1h"),
                during={"reverse.begun": (("sql", "ALTER TABLE t ADD COLUMN other INT"),)},
            ),
            STATUS,
            Step(words=("revert", "--table", "t")),
        ),
    ),
    Scenario(
        name="old_table_kept",
        steps=(
            Step(words=(*COPY, "--drop-old-after", "never")),
            STATUS,
            Step(words=("cleanup", "--table", "t", "--yes", "--drop-old")),
        ),
    ),
    Scenario(
        name="grace",
        steps=(
            Step(
                words=(*COPY, "--drop-old-after", "1h"),
                during={"old_table.waits": (("status", "grace"), ("background", "ctl", "abort"))},
            ),
            STATUS,
            Step(words=(*COPY, "--drop-old-after", "0s")),
        ),
    ),
    Scenario(
        name="refused_by_preflight",
        tables="CREATE TABLE t (a INT, b VARCHAR(50))",
        steps=(
            Step(words=change("MODIFY a BIGINT")),
            Step(words=plan("MODIFY a BIGINT")),
        ),
    ),
    Scenario(
        name="refused_options",
        steps=(
            Step(words=(*COPY, "--dry-run", "--defer-cutover")),
            Step(words=change("ADD COLUM z INT")),
        ),
    ),
    Scenario(
        name="unfinished_other",
        steps=(
            Step(words=COPY, at={"drain.begun": FAIL}),
            Step(words=change("MODIFY a BIGINT", "--no-shortcut")),
            Step(words=change("MODIFY a BIGINT", "--no-shortcut", "--start-afresh")),
        ),
    ),
    Scenario(
        name="cutover_timeout",
        steps=(
            Step(
                words=(*COPY, "--cutover-timeout", "1s", "--lock-wait-timeout", "1"),
                at={"cutover.begin": (("sql", "BEGIN; SELECT COUNT(*) FROM t"), ("aged", "2"))},
            ),
            Step(words=COPY, before="ROLLBACK"),
        ),
    ),
    Scenario(
        name="value_lost",
        steps=(Step(words=change("MODIFY b VARCHAR(6)")),),
    ),
    Scenario(
        name="value_lost_by_a_change",
        steps=(
            Step(
                words=change("MODIFY a SMALLINT"),
                at={"drain.begun": (("sql", "UPDATE t SET a = 70000 WHERE id = 7"),)},
            ),
        ),
    ),
    Scenario(
        name="duplicates",
        tables=f"{tables('t')}; UPDATE t SET b = 'same' WHERE id IN (7, 70)",
        steps=(Step(words=change("ADD UNIQUE KEY (b)")),),
    ),
    Scenario(
        name="difference_repaired",
        steps=(
            Step(
                words=COPY,
                at={
                    "checksum.begin": (
                        ("sql", "SET sql_log_bin = 0; UPDATE _t_new SET a = 1 WHERE id = 5"),
                        ("sql", "SET sql_log_bin = 1"),
                    )
                },
            ),
        ),
    ),
    Scenario(
        name="difference_found",
        steps=(
            Step(
                words=(*COPY, "--no-repair"),
                at={
                    "checksum.begin": (
                        ("sql", "SET sql_log_bin = 0; UPDATE _t_new SET a = 1 WHERE id = 5"),
                        ("sql", "SET sql_log_bin = 1"),
                    )
                },
            ),
        ),
    ),
    Scenario(
        name="changes",
        steps=(
            Step(
                words=COPY,
                at={
                    "drain.begun": (
                        ("sql", "UPDATE t SET b = 'new' WHERE id = 5"),
                        ("sql", "DELETE FROM t WHERE id = 6"),
                        ("sql", "INSERT INTO t (a, b) VALUES (1, 'one')"),
                    )
                },
            ),
        ),
    ),
    Scenario(
        name="batch",
        tables=tables("t1", "t2"),
        steps=(
            Step(
                words=(
                    *("plan", "--tables", "{schema}.t%", "--alter", ALTER, "--format", "json"),
                    *("--threads", "1"),
                )
            ),
            Step(
                words=(
                    *("migrate", "--tables", "{schema}.t%", "--alter", ALTER, "--yes"),
                    *("--threads", "1", "--no-shortcut"),
                )
            ),
        ),
    ),
    Scenario(
        name="batch_failed",
        tables=tables("t1", "t2"),
        steps=(
            Step(
                words=(
                    *("migrate", "--tables", "{schema}.t%", "--alter", ALTER, "--yes"),
                    *("--threads", "1", "--no-shortcut"),
                ),
                at={"drain.begun": FAIL},
            ),
            STATUS,
            Step(
                words=(
                    *("migrate", "--tables", "{schema}.t%", "--alter", ALTER, "--yes"),
                    *("--threads", "1", "--no-shortcut"),
                )
            ),
        ),
    ),
    Scenario(
        name="plans",
        steps=(
            Step(words=plan(ALTER)),
            Step(words=plan("ADD COLUMN z INT")),
            Step(words=plan("ADD INDEX (b)")),
        ),
    ),
    Scenario(
        name="attached",
        tables=(
            f"{tables('t')}; CREATE TABLE child (id INT PRIMARY KEY, t INT,"
            " CONSTRAINT of_t FOREIGN KEY (t) REFERENCES t (id));"
            " CREATE TRIGGER t_changes BEFORE UPDATE ON t FOR EACH ROW SET NEW.b = TRIM(NEW.b)"
        ),
        steps=(Step(words=change("ADD COLUMN z INT NOT NULL DEFAULT 5", "--no-shortcut")),),
    ),
    Scenario(
        name="checksum_command",
        tables=f"{tables('t', 'u')}; UPDATE u SET b = 'other' WHERE id = 9",
        steps=(
            Step(words=("checksum", "--table", "t", "--target-table", "u", "--threads", "1")),
            Step(
                words=(
                    *("checksum", "--table", "t", "--target-table", "u", "--threads", "1"),
                    "--repair",
                )
            ),
        ),
    ),
)
