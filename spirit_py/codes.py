"""The stable codes of errors and of preflight checks: a page of ``docs/errors/`` each (pure).

A code never changes its meaning: what the operator has to do. Errors with one remedy share it.
"""

from __future__ import annotations

import enum


class ErrorCode(enum.StrEnum):
    """The codes, grouped by what the page is about."""

    # The command, and what it needs where it runs.
    WRONG_OPTIONS = "wrong-options"
    NOT_CONFIRMED = "not-confirmed"
    CLIENT_LIBRARY_MISSING = "client-library-missing"
    JAVA_MISSING = "java-missing"
    OUTPUT_FAILED = "output-failed"
    FORKED_PROCESS = "forked-process"
    DEFECT = "defect"

    # The connection and the server.
    CANNOT_CONNECT = "cannot-connect"
    ACCESS_DENIED = "access-denied"
    TLS_FAILED = "tls-failed"
    NOT_ONE_SERVER = "not-one-server"
    SERVER_NOT_SUPPORTED = "server-not-supported"
    SERVER_SETTINGS = "server-settings"
    SERVER_ERROR = "server-error"
    MISSING_PRIVILEGES = "missing-privileges"
    BINLOG_FILTERED = "binlog-filtered"
    BINLOG_RETENTION = "binlog-retention"
    REPLICA = "replica"
    OTHER_WRITERS = "other-writers"
    NO_DISK_SPACE = "no-disk-space"
    LOCKS_UNSEEN = "locks-unseen"
    LOG_WRITER_THREADS = "log-writer-threads"
    ADAPTIVE_HASH_INDEX = "adaptive-hash-index"
    LIMIT_NOT_WATCHABLE = "limit-not-watchable"
    TAGGED_WRITES = "tagged-writes"
    PASSED_WRITES = "passed-writes"

    # The statement, the table and its new definition.
    REFUSED = "refused"
    CHECKS_REFUSE = "checks-refuse"
    STATEMENT_NOT_UNDERSTOOD = "statement-not-understood"
    CLAUSE_NOT_SUPPORTED = "clause-not-supported"
    ROWS_WOULD_GO = "rows-would-go"
    KEEP_REFUSED = "keep-refused"
    DEFINITION_REFUSED = "definition-refused"
    OTHER_MODES_ACCEPT = "other-modes-accept"
    OTHER_MODES_CHOSEN = "other-modes-chosen"
    NO_SUCH_TABLE = "no-such-table"
    TABLE_NOT_SUITABLE = "table-not-suitable"
    NO_USABLE_KEY = "no-usable-key"
    NULLABLE_KEY = "nullable-key"
    COLUMN_NOT_CONVERTIBLE = "column-not-convertible"
    AUTO_INCREMENT = "auto-increment"
    NEW_NOT_NULL = "new-not-null"
    ZERO_DATES = "zero-dates"
    CLOCK_DEFAULT = "clock-default"
    MEMBERS_IN_USE = "members-in-use"
    MEMBER_TWICE = "member-twice"
    PADDED_CHAR = "padded-char"
    JSON_ROUNDED = "json-rounded"
    CHECK_NAME = "check-name"
    TABLE_TOO_WIDE = "table-too-wide"
    FOREIGN_KEY = "foreign-key"
    TRIGGER_NOT_KEPT = "trigger-not-kept"
    DUPLICATES_FOR_UNIQUE_KEY = "duplicates-for-unique-key"
    NOT_COMPARABLE = "not-comparable"

    # Other runs, and what they have left.
    ALREADY_RUNNING = "already-running"
    RUN_LOCK_LOST = "run-lock-lost"
    EARLIER_SESSIONS = "earlier-sessions"
    UNFINISHED_WORK = "unfinished-work"
    CANNOT_RESUME = "cannot-resume"
    CHECKPOINT_UNREADABLE = "checkpoint-unreadable"
    CHECKPOINT_NOT_WRITTEN = "checkpoint-not-written"
    NAME_TAKEN = "name-taken"
    BATCH_REFUSED = "batch-refused"
    BATCH_RECORD = "batch-record"
    RECORDS_LEFT = "records-left"
    NOTHING_TO_CONTROL = "nothing-to-control"
    REQUEST_REFUSED = "request-refused"
    NO_ANSWER = "no-answer"
    NO_REVERSE_REPLICATION = "no-reverse-replication"
    REVERSE_NOT_POSSIBLE = "reverse-not-possible"
    REVERSE_REPLICATION_LOST = "reverse-replication-lost"

    # While rows are copied.
    MIGRATION_FAILED = "migration-failed"
    COPY_FAILED = "copy-failed"
    VALUE_LOST = "value-lost"
    PACKET_TOO_SMALL = "packet-too-small"
    CRITICAL_LOAD = "critical-load"
    SPARK_FAILED = "spark-failed"
    WORKERS_LOST = "workers-lost"
    INDEX_BUILD_FAILED = "index-build-failed"

    # The change feed.
    FEED_FAILED = "feed-failed"
    FEED_SERVER_SILENT = "feed-server-silent"
    FEED_POSITION_PURGED = "feed-position-purged"
    BINLOG_UNREADABLE = "binlog-unreadable"
    COMMITS_STALLED = "commits-stalled"
    XA_UNDECIDED = "xa-undecided"
    UNREADABLE_CHANGE = "unreadable-change"
    HIDDEN_CHANGE = "hidden-change"
    NULL_IN_KEY = "null-in-key"
    STATEMENT_WRITE = "statement-write"
    SCHEMA_CHANGED = "schema-changed"
    ANOTHER_SERVER = "another-server"
    SERVER_RESTARTED = "server-restarted"
    BINLOG_LOST = "binlog-lost"
    NO_ROOM_FOR_CHANGES = "no-room-for-changes"
    CHANGES_NOT_FLUSHED = "changes-not-flushed"

    # The comparison.
    CHECKSUM_FAILED = "checksum-failed"
    GENERATED_STORED_OTHERWISE = "generated-stored-otherwise"
    STILL_DIFFERENT = "still-different"
    DIFFERENCES_FOUND = "differences-found"

    # The swap, and what comes after it.
    LOCK_NOT_GRANTED = "lock-not-granted"
    SWAP_NOT_MADE = "swap-not-made"
    SWAP_HELD_BACK = "swap-held-back"
    SNAPSHOT_GUARD = "snapshot-guard"
    SWITCH_FAILED = "switch-failed"
    OUTCOME_UNKNOWN = "outcome-unknown"
    KEYS_AND_TRIGGERS_UNSETTLED = "keys-and-triggers-unsettled"
    OLD_TABLE_LEFT = "old-table-left"

    # The archive.
    ARCHIVE_REFUSED = "archive-refused"
    ARCHIVE_FAILED = "archive-failed"

    # The operator ended the run.
    INTERRUPTED = "interrupted"
    ABORTED = "aborted"
    ABORTED_FOR_GOOD = "aborted-for-good"
