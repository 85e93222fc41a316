"""The options of each command: ``...Arguments`` are the library's, ``...Command`` add to these."""

from typing import Annotated, Literal, TypedDict

from spirit_py.config import ChecksumMode, IndexMode, LineFormat, TriggerMode
from spirit_py.options import (
    BEGIN,
    COMPARISON,
    DEFINITIONS,
    FLEET,
    LOCKS,
    MANY,
    OLD_TABLE,
    OUTPUT,
    SPEED,
    TARGET,
    UNFINISHED,
    WRITERS,
    FileRead,
    Names,
    Seconds,
    SecondsOrNever,
    Size,
)
from spirit_py.options.servers import ConnectionArguments, TargetOptions, TargetServer
from spirit_py.options.shared import (
    ArchiveOptions,
    BatchOptions,
    ComparedOptions,
    DocsOption,
    FleetOptions,
    LoadOptions,
    LogOption,
    PassableOption,
    ReportOptions,
    RunOutput,
    SampleOption,
    SparkOptions,
    SwapOptions,
    TracebackOption,
    VerboseOption,
    VetoOption,
    WaitOptions,
)


class _Schema(TypedDict, total=False):
    database: Annotated[str, BEGIN(default=""), "Schema of the table."]


class _Table(TypedDict, total=False):
    table: Annotated[str, BEGIN(), "Table to change; goes with --alter."]


class _Alter(TypedDict, total=False):
    alter: Annotated[str, BEGIN(), "The clauses after ALTER TABLE t."]


class _Statement(TypedDict, total=False):
    statement: Annotated[
        str,
        BEGIN(),
        "A whole ALTER TABLE, CREATE INDEX or DROP INDEX, instead of --table and --alter; several"
        " tables, separated by semicolons, are cut over at the same moment.",
    ]


class _OnSpark(ConnectionArguments, SparkOptions, ReportOptions, VerboseOption, total=False):
    """What all commands have that compute on Spark."""


class _Comparing(TypedDict, total=False):
    checksum: Annotated[
        ChecksumMode,
        COMPARISON(default="rolling"),
        "rolling: compare in snapshots of about a second, without a lock, and again what changed"
        " meanwhile. snapshot: in one snapshot, opened under a READ lock of milliseconds.",
    ]


class _CopyOptions(_OnSpark, WaitOptions, SwapOptions, _Comparing, PassableOption, total=False):
    """What is the same for all that copy tables, and switch to the copies."""

    threads: Annotated[
        int,
        SPEED(least=1, most=256, live="threads", common=True),
        "Most tasks that copy at a time; trials find how many pay. [default: 32]",
    ]
    target_chunk_time: Annotated[
        Seconds,
        SPEED(least=0.01, most=60, default=0.5, live="chunk-time"),
        "Target time of one chunk, in seconds.",
    ]
    aggressive: Annotated[
        bool,
        SPEED(live="aggressive", common=True),
        "Copy as fast as the server can, in large transactions, regardless of other load; by"
        " default the copy slows down when commits of others take twice as long as without it.",
    ]
    nice: Annotated[
        float,
        SPEED(metavar="RATIO", least=0, most=100, default=0.0, live="nice", common=True),
        "Seconds to sleep for each second of copying: 1 halves the speed.",
    ]
    defer_cutover: Annotated[
        bool,
        LOCKS(common=True),
        "Create a sentinel table (_t_snt), and cut over only when it is dropped or spirit-py ctl"
        " cutover is run.",
    ]
    defer_timeout: Annotated[
        Seconds,
        LOCKS(least=1, default="48h"),
        "How long a deferred cut-over waits (--defer-cutover, a sentinel table, ctl postpone)"
        " before the run ends; the same command resumes.",
    ]
    no_repair: Annotated[bool, COMPARISON(), "Fail when the checksum finds a difference."]
    recheck_interval: Annotated[
        Seconds,
        COMPARISON(least=1, default="10m"),
        "Pause between two checksums while the cut-over is deferred.",
    ]
    sql_mode: Annotated[
        str,
        DEFINITIONS(metavar="MODES"),
        "Run the ALTER under this sql_mode instead of the server's, for a definition that only an"
        " older mode accepts. Values are never truncated or replaced.",
    ]
    allow_zero_dates: Annotated[
        bool,
        DEFINITIONS(),
        "The same under the server's sql_mode without NO_ZERO_DATE and NO_ZERO_IN_DATE.",
    ]
    innodb_strict_mode: Annotated[
        Literal["on", "off"],
        DEFINITIONS(),
        "The same with this innodb_strict_mode: off accepts a definition whose rows may become"
        " too long for a page.",
    ]
    checkpoint_max_age: Annotated[
        Seconds,
        UNFINISHED(least=1, default="7d"),
        "Do not resume from a checkpoint older than this.",
    ]
    start_afresh: Annotated[
        bool,
        UNFINISHED(environment=False, common=True),
        "Drop the rows that an unfinished migration of the table has copied, if this command"
        " cannot resume it; without this option a terminal asks, and anything else is refused.",
    ]
    writes_only_here: Annotated[
        bool,
        WRITERS(first=True),
        "Declare that no session writes the table through another server (several primaries,"
        " Galera, circular replication) until the cut-over has reached it: the table lock holds"
        " on this server alone.",
    ]


class _EachOptions(_CopyOptions, ArchiveOptions, total=False):
    # Not by the environment, where it would drop rows that nobody has named.
    keep: Annotated[
        str,
        BEGIN(metavar="EXPRESSION", environment=False),
        "Keep only rows for which this is true, such as \"created_at >= '2025-01-01'\"; all others"
        " are not in the new table. May stand without --alter.",
    ]
    dry_run: Annotated[
        bool,
        BEGIN(),
        "Do everything but the cut-over, under the real load; report, and leave nothing behind.",
    ]
    on_replica: Annotated[
        str,
        BEGIN(metavar="HOST[:PORT]", needs=("dry_run",)),
        "Rehearse on this replica instead, with the same account, past its binary log.",
    ]
    defer_indexes: Annotated[
        IndexMode,
        SPEED(default="auto"),
        "Build secondary indexes that are not unique after the rows are copied, before the"
        " checksum. auto: when they are large compared with the buffer pool and no replica would"
        " have to apply one long ADD INDEX.",
    ]
    tag_own_writes: Annotated[
        bool,
        SPEED(),
        "Keep the copy's own writes out of the change feed, by a GTID tag; needs GTIDs. Leaves an"
        " identifier in gtid_executed for good.",
    ]
    no_shortcut: Annotated[bool, SPEED(), "Copy even where INSTANT or INPLACE would work."]
    native: Annotated[
        Size,
        SPEED(),
        "Where a table takes no more than this, the server itself makes what is not in place:"
        " online if it can, otherwise writes wait while it copies the rows. MODIFY, CHANGE and"
        " CONVERT TO are not made so.",
    ]
    triggers: Annotated[
        TriggerMode,
        LOCKS(default="keep"),
        "keep: the changed table gets the same triggers at the moment of the cut-over. refuse: do"
        " not migrate a table with triggers.",
    ]
    keep_old_current: Annotated[
        Seconds,
        OLD_TABLE(common=True),
        "Keep the old table in sync for this long after the cut-over, for spirit-py revert."
        " [default: 0s]",
    ]
    drop_old_after: Annotated[
        SecondsOrNever,
        OLD_TABLE(common=True),
        "How long to keep the old table after the cut-over, such as 1h, for spirit-py revert;"
        " never: leave it to spirit-py cleanup --drop-old. A column that could be dropped instantly"
        " is then dropped by a copy, so that there is an old table. [default: 0s]",
    ]
    recompute_generated: Annotated[
        bool,
        COMPARISON(),
        "Accept that stored generated columns are recomputed under the server's own time zone and"
        " settings, where sessions with other settings stored other values.",
    ]
    allow_nullable_unique_key: Annotated[
        bool,
        DEFINITIONS(),
        "Identify rows by a unique key with nullable columns where there is no other key; a row"
        " with NULL in it stops the run.",
    ]
    allow_data_loss: Annotated[
        bool,
        DEFINITIONS(environment=False),
        "Run DROP, TRUNCATE and EXCHANGE PARTITION, with which rows leave the table.",
    ]


class _Yield(TypedDict, total=False):
    checksum_yield_timeout: Annotated[
        Seconds,
        COMPARISON(least=1, default="1h"),
        "Age at which the checksum releases its snapshot and takes a new one.",
    ]


class MigrationArguments(_Schema, _Table, _Alter, _Statement, _EachOptions, _Yield, total=False):
    """The options of ``spirit-py migrate``, but those of a batch and of its output."""


class BatchArguments(_Schema, _Alter, _EachOptions, _Yield, BatchOptions, total=False):
    """As of ``spirit-py migrate`` for many tables; ``statements`` are a file's name, or a list."""


class FleetArguments(
    _Schema,
    _Table,
    _Alter,
    _Statement,
    _EachOptions,
    _Yield,
    BatchOptions,
    FleetOptions,
    total=False,
):
    """As of ``spirit-py migrate`` for many servers; ``servers`` is a file's name."""


class PlanArguments(MigrationArguments, SampleOption, total=False):
    """The options of ``spirit-py plan``, but those of a batch and of its output."""


class MigrateCommand(
    MigrationArguments, BatchOptions, FleetOptions, RunOutput, VetoOption, total=False
):
    """The options of ``spirit-py migrate``."""

    # Not by the environment, where it would answer a question that nobody has seen.
    yes: Annotated[
        bool,
        OUTPUT(
            environment=False,
            common=True,
            needs=("tables", "statements", "servers", "servers_from"),
        ),
        "Change many tables without asking first.",
    ]


class PlanCommand(PlanArguments, BatchOptions, FleetOptions, RunOutput, VetoOption, total=False):
    """The options of ``spirit-py plan``: those behind ``migrate`` are those behind ``plan``."""

    format: Annotated[
        Literal["text", "json"],
        OUTPUT(first=True, default="text"),
        "json: one document for programs.",
    ]


class ArchiveArguments(_OnSpark, LoadOptions, ArchiveOptions, _Schema, total=False):
    """The options of ``spirit-py archive``, but those of its output."""

    table: Annotated[str, BEGIN(), "The table; of an earlier run's old one, _TABLE_old."]
    keep: Annotated[
        str,
        BEGIN(metavar="EXPRESSION"),
        "Leave rows out for which this is true, as migrate --keep does. [default: none]",
    ]
    threads: Annotated[
        int, SPEED(least=1, most=256, common=True), "Most tasks at a time. [default: 4 at most]"
    ]


class ArchiveCommand(ArchiveArguments, RunOutput, total=False):
    """The options of ``spirit-py archive``."""


class MoveArguments(_Schema, _Alter, _CopyOptions, TargetServer, _Yield, total=False):
    """The options of ``spirit-py move``, but those of its output."""

    tables: Annotated[
        Names,
        BEGIN(metavar="SCHEMA.TABLE"),
        "Move every table that matches, all at the same moment; both parts are LIKE patterns, a"
        " part in backquotes is a name; repeatable.",
    ]
    exclude: Annotated[
        Names,
        MANY(metavar="SCHEMA.TABLE", needs=("tables",)),
        "Skip the tables that match; repeatable.",
    ]
    target: Annotated[
        Names,
        TARGET(metavar="NAME=HOST[:PORT]", needs=("shard_by",), common=True),
        "One of several targets, and what --shard-by calls it; repeatable. A URL may stand for the"
        " address; what it leaves out is as the options above say.",
    ]
    shard_by: Annotated[
        str,
        TARGET(metavar="EXPRESSION", needs=("target", "source"), common=True),
        "What gives the name of the target that a row goes to, or of the source that it is on,"
        " judged by the server; rows may change their target while they move. [default: all rows go"
        " from --host to --target-host]",
    ]
    source: Annotated[
        Names,
        BEGIN(metavar="NAME=HOST[:PORT]", needs=("shard_by",)),
        "One of several sources whose rows come together in the tables of --target-host, and what"
        " --shard-by calls it; instead of --host, repeatable. A URL may stand for the address.",
    ]
    on_switch: Annotated[
        str,
        LOCKS(metavar="COMMAND", common=True),
        "Run this command, which sends the application to the target, when the tables have their"
        " names there and no longer here; its failure renames them back.",
    ]
    switch_timeout: Annotated[
        Seconds,
        LOCKS(least=1, most=3600, default=30.0, needs=("on_switch",)),
        "How long that command may take; the tables are locked meanwhile.",
    ]
    keep_old_current: Annotated[
        Seconds,
        OLD_TABLE(common=True),
        "Keep the table that is left on the source in sync for this long after the switch, for"
        " spirit-py revert. [default: 0s]",
    ]
    drop_old_after: Annotated[
        SecondsOrNever,
        OLD_TABLE(default="never", common=True),
        "How long to keep the table that is left on the source (_TABLE_moved); never: leave it to"
        " spirit-py cleanup --drop-old.",
    ]
    dry_run: Annotated[
        bool,
        BEGIN(),
        "Do everything but the switch, under the real load; report, and leave nothing behind.",
    ]


class MovePlanArguments(MoveArguments, total=False):
    """The options of ``spirit-py move --plan``, but those of its output."""

    sample: Annotated[
        bool,
        OUTPUT(default=True, needs=("plan",)),
        "With --plan: measure the time by copying some rows into temporary tables, for a few"
        " seconds at most.",
    ]


class MoveCommand(MovePlanArguments, RunOutput, VetoOption, total=False):
    """The options of ``spirit-py move``."""

    plan: Annotated[
        bool,
        BEGIN(environment=False, common=True),
        "Only show what would be done, and why; write nothing.",
    ]
    format: Annotated[
        Literal["text", "json"],
        OUTPUT(first=True, default="text", needs=("plan",)),
        "With --plan; json: one document for programs.",
    ]


class ChecksumArguments(_OnSpark, TargetOptions, ComparedOptions, _Yield, total=False):
    """The options of ``spirit-py checksum``, but those of its output."""

    database: Annotated[str, BEGIN(), "Schema of the source table."]
    table: Annotated[str, BEGIN(), "The source table, taken as correct."]
    threads: Annotated[
        int, SPEED(least=1, most=256, common=True), "Chunks in parallel. [default: 4 at most]"
    ]
    lock_wait_timeout: Annotated[
        Seconds,
        LOCKS(least=1, most=3600, default=2.5, unless="no_lock"),
        "Longest wait for one request of that lock, in seconds; new writers queue behind"
        " it. It is not requested while a writing transaction older than a second blocks it.",
    ]
    lock_timeout: Annotated[
        Seconds, LOCKS(default="1h", unless="no_lock"), "How long to keep requesting that lock."
    ]
    no_lock: Annotated[
        bool, LOCKS(), "Do not lock the tables (READ, for milliseconds) while the snapshots open."
    ]


class ChecksumCommand(ChecksumArguments, RunOutput, total=False):
    """The options of ``spirit-py checksum``."""


class RevertArguments(_OnSpark, SwapOptions, _Comparing, PassableOption, _Schema, total=False):
    """The options of ``spirit-py revert``, but those of its output."""

    table: Annotated[str, BEGIN(), "Table to revert."]
    threads: Annotated[int, SPEED(least=1, most=256), "Number of tasks that compare rows."]
    skip_drop: Annotated[bool, OLD_TABLE(), "Keep the table that is swapped out: _TABLE_undone."]


class RevertCommand(RevertArguments, RunOutput, total=False):
    """The options of ``spirit-py revert``."""


class StatusArguments(ConnectionArguments, total=False):
    """The options of ``spirit-py status``, but those of its output."""

    database: Annotated[str, BEGIN(), "Schema to look in. [default: all of them]"]
    table: Annotated[str, BEGIN(default=""), "Table in that schema. [default: all of them]"]
    checkpoint_max_age: Annotated[
        Seconds, UNFINISHED(default="7d"), "Checkpoint age above which migrate would not resume."
    ]


class StatusCommand(StatusArguments, DocsOption, TracebackOption, total=False):
    """The options of ``spirit-py status``."""

    json: Annotated[
        bool,
        OUTPUT(first=True, parameter="as_json"),
        "JSON for programs: one list; an error as one object.",
    ]


class CleanupArguments(ConnectionArguments, _Schema, total=False):
    """The options of ``spirit-py cleanup``; it does not ask."""

    table: Annotated[str, BEGIN(), "The table whose migration is abandoned."]
    batch: Annotated[
        str,
        MANY(metavar="SCHEMA.TABLE"),
        "Instead of a table: forget an abandoned batch; its record, as spirit-py status shows it.",
    ]
    drop_old: Annotated[
        bool,
        OLD_TABLE(environment=False),
        "With --yes: drop the old table of a finished swap too, or what proves an unfinished move.",
    ]


class CleanupCommand(CleanupArguments, DocsOption, TracebackOption, total=False):
    """The options of ``spirit-py cleanup``."""

    yes: Annotated[
        bool,
        OUTPUT(environment=False),
        "Do not ask for confirmation; an old table is kept even so.",
    ]


class CtlCommand(ConnectionArguments, _Schema, DocsOption, TracebackOption, total=False):
    """The options of ``spirit-py ctl``."""

    table: Annotated[str, BEGIN(), "The table; any one of several that change together."]
    fleet: Annotated[
        FileRead,
        FLEET(),
        "Instead of a table: all migrations of a change for many servers; the list of these"
        " servers, as migrate --servers has it.",
    ]
    # Not by the environment, where it would drop what somebody else's abort means to keep.
    cleanup: Annotated[bool, OLD_TABLE(environment=False), "With abort: drop what was copied, too."]
    json: Annotated[
        bool,
        OUTPUT(first=True, parameter="as_json"),
        "JSON for programs: what was done, or the error, as one object; with status one list.",
    ]


class ExplainCommand(DocsOption, total=False):
    """The options of ``spirit-py explain``."""

    json: Annotated[
        bool,
        OUTPUT(first=True, parameter="as_json"),
        "JSON for programs: the errors and the exit codes as one object.",
    ]


class WatchCommand(
    ConnectionArguments, PassableOption, LogOption, DocsOption, VerboseOption, total=False
):
    """The options of ``spirit-py watch``."""

    database: Annotated[str, BEGIN(), "Schema to follow. [default: all of them]"]
    table: Annotated[str, BEGIN(), "Table in that schema to follow. [default: all of them]"]
    from_: Annotated[
        str, BEGIN(parameter="position"), "Position that an earlier run ended at, or now."
    ]
    until: Annotated[Literal["now"], BEGIN(), "End at the server's position of the start."]
    format: Annotated[
        LineFormat, OUTPUT(first=True, default="json"), "JSON for programs, text for people."
    ]
    heartbeat: Annotated[
        Seconds,
        OUTPUT(first=True, least=0, most=86400),
        "Seconds without an event after which to print a heartbeat. [default: never]",
    ]
