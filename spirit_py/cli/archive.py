"""``spirit-py archive``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spirit_py.cli.changes import require_archive
from spirit_py.cli.display import records_of, reporters_of, tell_summary
from spirit_py.cli.groups import command
from spirit_py.cli.values import complete, connection_of, named_alike
from spirit_py.config import MigrationConfig, SessionModes, SparkConfig
from spirit_py.errors import UsageFault
from spirit_py.options.commands import ArchiveCommand

if TYPE_CHECKING:
    from spirit_py.cli.outcome import ErrorsShown

ARCHIVE_EXIT_CODES: Final = """\b
Exit codes:
  0    the rows are in the files, which were read back and compared
  1    failed; the same command carries on
  2    refused: nothing was written
  130  interrupted by SIGINT      143  by SIGTERM"""


@command(ArchiveCommand, ARCHIVE_EXIT_CODES)
def archive(shown: ErrorsShown, options: dict[str, Any]) -> None:
    """Write a table's rows to Parquet files with Spark, and prove them; the table stays as it is.

    \b
    spirit-py archive --host db1 --database shop --table orders \\
        --keep "created_at >= '2025-01-01'" --archive-to /archive/2024
    """  # noqa: D301 - click reads the backspace
    config = archive_config(options)
    reporter = shown.through(reporters_of(config.records, verbose=shown.verbose))
    from spirit_py.migration import entry

    report = entry.archive(config, reporter=reporter)
    tell_summary(report.summary(warnings=reporter.warnings), reporter)


def archive_config(options: dict[str, Any]) -> MigrationConfig:
    """Build the configuration from the command line's values; raises UsageFault."""
    complete(options)
    for name in ("table", "database", "archive_to"):
        if not options[name]:
            flag = f"--{name.replace('_', '-')}"
            raise UsageFault(f"{flag} is missing", hint="spirit-py archive --help shows an example")
    require_archive(options)
    if options["keep"] is not None and not options["keep"].strip():
        raise UsageFault("--keep is empty", hint="write an expression, or leave it out")
    alike = named_alike(MigrationConfig, options)
    threads = options["threads"] or SparkConfig.threads
    return MigrationConfig(
        connection=connection_of(options),
        modes=SessionModes(keep=options["keep"] or ""),
        records=records_of(options),
        writes_files=True,
        **alike
        | {
            "allow": tuple(window for given in options["allow"] for window in given),
            "threads": threads,
        },
    )
