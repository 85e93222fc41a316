"""The options that several commands have, in the groups in which they have them."""

from typing import Annotated, Final, TypedDict

from spirit_py.config import GuardMode, KillMode, OnFailure
from spirit_py.options import (
    ARCHIVE,
    COMPARISON,
    FLEET,
    HOOKS,
    LOCKS,
    MANY,
    OUTPUT,
    SPARK,
    WAIT,
    WRITERS,
    Address,
    FileRead,
    FileWritten,
    Limits,
    Names,
    Pairs,
    Password,
    Seconds,
    Size,
    SparkSettings,
    Statements,
    TableNames,
    Url,
    Windows,
)
from spirit_py.records import LogFormat


class BatchOptions(TypedDict, total=False):
    """Which tables a batch changes, and how many at a time."""

    tables: Annotated[
        Names,
        MANY(metavar="SCHEMA.TABLE", common=True),
        "Change every table that matches, each by a migration of its own; both parts are LIKE"
        " patterns, a part in backquotes is a name; repeatable, goes with --alter.",
    ]
    exclude: Annotated[
        Names,
        MANY(metavar="SCHEMA.TABLE", needs=("tables",)),
        "With --tables: skip the tables that match; repeatable.",
    ]
    statements: Annotated[
        Statements,
        MANY(common=True),
        "Run a file of ALTER TABLE, CREATE INDEX and DROP INDEX, each as a migration of its own.",
    ]
    parallel: Annotated[
        int,
        MANY(least=1, most=64, default=1, needs=("tables", "statements")),
        "With --tables or --statements: migrations at the same time; they share --threads.",
    ]
    on_failure: Annotated[
        OnFailure,
        MANY(default="stop", needs=("tables", "statements")),
        "With --tables or --statements: whether further tables are begun after one has failed.",
    ]


_SERVERS: Final = ("servers", "servers_from")


class FleetOptions(TypedDict, total=False):
    """On which servers a change is made, in which order, and how many at a time."""

    servers: Annotated[
        FileRead,
        FLEET(common=True),
        "Make the same change on every server of this list (docs/fleet.md): TOML, or a URL a line"
        " with labels, such as mysql://db1:3306/shop name=shop-1 region=eu.",
    ]
    servers_from: Annotated[
        str,
        FLEET(metavar="COMMAND", unless="servers"),
        "Run this with /bin/sh -c, and read such a list from its output.",
    ]
    canary: Annotated[
        int,
        FLEET(least=0, default=0, needs=_SERVERS, common=True),
        "The first servers of the list go first, alone: so many.",
    ]
    waves_by: Annotated[
        str,
        FLEET(metavar="LABEL", default="", needs=_SERVERS),
        "The others go in waves, one for each value of this label, in the order of the list.",
    ]
    servers_at_once: Annotated[
        int, FLEET(least=1, default=4, needs=_SERVERS, common=True), "Most servers at a time."
    ]
    at_once_of: Annotated[
        Names,
        FLEET(metavar="LABEL=NUMBER", needs=_SERVERS),
        "Most servers at a time that have the same value of a label; repeatable.",
    ]
    stop_after: Annotated[
        int,
        FLEET(metavar="FAILURES", least=1, default=1, needs=_SERVERS),
        "After so many servers have failed, or were refused, none is begun any more.",
    ]


class LoadOptions(TypedDict, total=False):
    """What all work on a table waits for, reading too."""

    max_load: Annotated[
        Limits,
        WAIT(metavar="NAME=VALUE,...", live="max-load", common=True),
        "Pause while a counter of SHOW GLOBAL STATUS is above its value: Threads_running=25.",
    ]
    critical_load: Annotated[
        Limits,
        WAIT(metavar="NAME=VALUE,...", live="critical-load"),
        "Stop the run above such a value, seen twice within half a second; the same command"
        " resumes.",
    ]
    throttle_http: Annotated[
        Url,
        WAIT(metavar="URL"),
        "Pause while a HEAD request to this endpoint is answered by anything but 200.",
    ]
    throttle_query: Annotated[
        str,
        WAIT(metavar="SELECT"),
        "Pause while the first value of this query is not 0; a text is shown as the reason.",
    ]
    allow: Annotated[
        Windows,
        WAIT(metavar="HH:MM-HH:MM[,...]", common=True),
        "Work and cut over at these times of the day only, by this machine's clock or at an"
        " offset: 22:00-06:00+01:00; repeatable.",
    ]


class WaitOptions(LoadOptions, total=False):
    """What the work of a migration waits for."""

    max_lag: Annotated[
        Seconds,
        WAIT(live="max-lag", common=True),
        "Pause while a replica lags more than this. A replica that cannot be read then pauses the"
        " migration too; 0 watches none. [default: 1.5s, for the replicas that can be read]",
    ]
    replica: Annotated[
        Names,
        WAIT(parameter="replicas", metavar="HOST[:PORT]", common=True),
        "Replica whose lag is watched; repeatable. [default: those that the server knows]",
    ]
    replica_user: Annotated[
        str, WAIT(), "User name on the replicas; it needs no privilege there. [default: --user]"
    ]
    replica_password: Annotated[
        Password, WAIT(), "Its password; asked for without a value. [default: --password]"
    ]
    min_free_disk: Annotated[
        Size,
        WAIT(),
        "Pause while a disk of the server has less free space than this; 0 for no"
        " limit. [default: 256M, for a server on this machine]",
    ]
    max_binlog_space: Annotated[
        Size, WAIT(), "Pause while the server's binary logs take more space than this."
    ]
    max_history_length: Annotated[
        int, WAIT(least=0), "Pause while InnoDB's history list is longer than this."
    ]
    max_checkpoint_age: Annotated[
        float,
        WAIT(least=0, most=100, metavar="PERCENT"),
        "Pause while more of the redo log is in use than this.",
    ]


class ComparedOptions(TypedDict, total=False):
    """What is compared, and what becomes of differences."""

    map: Annotated[
        Pairs,
        COMPARISON(metavar="OLD=NEW", common=True),
        "Compare the source's column OLD with the target's NEW; repeatable.",
    ]
    ignore_column: Annotated[
        Names,
        COMPARISON(parameter="ignored", metavar="NAME", common=True),
        "Do not compare a column; repeatable.",
    ]
    # Not by the environment, where it would change a table that was to be compared alone.
    repair: Annotated[
        bool,
        COMPARISON(environment=False, common=True),
        "Make the target equal: its differing rows are deleted, and written as the source has"
        " them. Refused where triggers or foreign keys of the target would act.",
    ]


class SwapOptions(TypedDict, total=False):
    """Locks on the table: how they are requested, and whom they may end."""

    lock_wait_timeout: Annotated[
        Seconds,
        LOCKS(least=1, most=3600, default=2.5),
        "Longest wait for one lock request on the table, in seconds: new statements of the"
        " application may queue behind it for that long. The lock is not requested at all while a"
        " transaction older than a second blocks it.",
    ]
    cutover_timeout: Annotated[
        Seconds,
        LOCKS(default="1d"),
        "How long to keep trying to get the cut-over's lock; then the run ends, and the same"
        " command resumes.",
    ]
    kill_blockers: Annotated[
        KillMode,
        LOCKS(default="never", common=True),
        "Which sessions to kill when they have blocked the lock for 30 s (--kill-after): none;"
        " those that idle in a transaction; those that run a statement too.",
    ]
    kill_after: Annotated[
        Seconds,
        LOCKS(least=0.1, most=86400, default=30.0, needs=("kill_blockers",)),
        "How long a session must have blocked the lock before it is killed, in seconds.",
    ]
    snapshot_guard: Annotated[
        GuardMode,
        LOCKS(default="auto"),
        "Make snapshots from before the cut-over fail with error 1412, instead of showing half a"
        " copy, when they read the new table; auto: wherever the table allows it.",
    ]


class PassableOption(TypedDict, total=False):
    """Tables whose writes in STATEMENT format may be passed over."""

    pass_statement_writes: Annotated[
        TableNames,
        WRITERS(parameter="passable", metavar="SCHEMA.TABLE"),
        "Ignore other clients' writes in STATEMENT format to this table: declares that none of"
        " them changes a table that is migrated or followed; repeatable.",
    ]


class SparkOptions(TypedDict, total=False):
    """Spark."""

    spark_master: Annotated[
        str,
        SPARK(),
        "Spark master; a named one is started for a small table too. [default: local[threads]]",
    ]
    spark_conf: Annotated[SparkSettings, SPARK(metavar="KEY=VALUE"), "Passed to Spark; repeatable."]
    spark_ui: Annotated[bool, SPARK(), "Open Spark's web interface, on the loopback address."]


class SampleOption(TypedDict, total=False):
    """Whether a plan measures."""

    sample: Annotated[
        bool,
        OUTPUT(default=True),
        "Measure the time by copying some rows into a temporary table, for a few seconds at most.",
    ]


class ArchiveOptions(TypedDict, total=False):
    """Where rows are written that are not kept."""

    archive_to: Annotated[
        str,
        ARCHIVE(metavar="FOLDER", common=True),
        "Write the rows that are not kept to Parquet files in SCHEMA.TABLE below this folder, which"
        " may be of any file system that Spark knows, and prove them before they are dropped.",
    ]
    archive_by: Annotated[
        str,
        ARCHIVE(metavar="EXPRESSION", needs=("archive_to",)),
        "Part the files into folders by the value of this expression: YEAR(created_at).",
    ]


class ReportOptions(TypedDict, total=False):
    """What a run leaves, and what others may read of it meanwhile."""

    report_json: Annotated[FileWritten, OUTPUT(common=True), "Write the final report to this file."]
    report_html: Annotated[
        FileWritten,
        OUTPUT(common=True),
        "Write the report to this file as one page, with plots of the run.",
    ]
    metrics_listen: Annotated[
        Address,
        OUTPUT(common=True),
        "Answer Prometheus' scrapes there; :9187 on this machine alone.",
    ]
    metrics_file: Annotated[
        FileWritten,
        OUTPUT(),
        "Write the same metrics to this file, for node_exporter's textfile collector.",
    ]


class LogOption(TypedDict, total=False):
    """Log lines; of the command line alone: a program gets the events."""

    log_format: Annotated[
        LogFormat,
        OUTPUT(default="text", common=True),
        "Format of the log lines; text is for where there is no terminal, json is one object a"
        " line with stable names, on a terminal too.",
    ]


class DocsOption(TypedDict, total=False):
    """The address of the pages about errors; of the command line alone."""

    docs_url: Annotated[
        Url,
        OUTPUT(default="", metavar="URL"),
        "Where your team has this program's documentation as a site; errors then name the page"
        " there, too.",
    ]


class VerboseOption(TypedDict, total=False):
    """How much is kept for a search of errors."""

    verbose: Annotated[
        bool,
        OUTPUT(common=True),
        "More lines, and tracebacks; Spark's log in ./spirit-py-spark.log.",
    ]


class TracebackOption(TypedDict, total=False):
    """The same of a command without Spark; of the command line alone."""

    verbose: Annotated[bool, OUTPUT(common=True), "Tracebacks."]


class VetoOption(TypedDict, total=False):
    """A say in the swap; of the command line alone."""

    hook_veto: Annotated[
        bool,
        HOOKS(),
        "Ask the command of --on-event before the swap (event cutover.ready): unless it exits"
        " with 0 the swap is put off, and it is asked again later.",
    ]


class RunOutput(LogOption, DocsOption, total=False):
    """What a run says while it works; of the command line alone: a program gets the events."""

    on_event: Annotated[
        str,
        HOOKS(first=True, metavar="COMMAND", common=True),
        "Run this with /bin/sh -c at each event, with the event as JSON on its standard input"
        " (docs/events.md). Its failure never stops the run.",
    ]
    hook_timeout: Annotated[
        Seconds,
        HOOKS(least=0.1, default="30s", needs=("on_event",)),
        "Time after which a call of it is killed.",
    ]
