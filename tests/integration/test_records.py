"""What a run leaves for others: metrics while it works, a page and a file at its end."""

from __future__ import annotations

import contextlib
import re
import socket
from itertools import pairwise

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.kits.command import run_here
from tests.kits.held_command import Command, assert_migrated, fill
from tests.kits.point_listener import PointListener
from tests.kits.scraping import scraped
from tests.kits.waiting import until
from tests.unit.status.test_page import Seen, require_self_contained


def samples(text):
    """Return the values of a scrape by name and the labels beside the table."""
    return {
        (
            one.name,
            *(value for name, value in sorted(one.labels.items()) if name != "table"),
        ): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def address_of(log):
    """Return where a run that logs to a file answers scrapes, once it says so."""
    said = r"metrics are at http://(\S+)/metrics"
    return until(lambda: (found := re.search(said, log.read_text())) and found[1], "the address")


@pytest.mark.slow
def test_a_migration_is_scraped_while_it_runs_and_leaves_its_records(db, tmp_path):
    """Its counters never fall; at the end the files are there."""
    page, metrics = tmp_path / "run.html", tmp_path / "run.prom"
    words = ["--metrics-listen", "127.0.0.1:0", "--metrics-file", str(metrics)]
    with PointListener(tmp_path / "points") as listener:
        hold = listener.hold("cutover.lock")
        command = Command(fill(db), listener, tmp_path, *words, "--report-html", str(page))
        address = address_of(command.log)
        early = samples(scraped(address)[1])
        command.wait_held(hold)
        held = until(
            lambda: (
                (now := samples(scraped(address)[1])).get(("spirit_py_phase", "cutover")) and now
            ),
            "the phase",
        )
        hold.release()
        assert command.end() == 0
    assert held["spirit_py_copied_rows_total",] == 3000
    assert ("spirit_py_lock_held_seconds",) not in held
    last = samples(metrics.read_text())
    assert last["spirit_py_outcome", "done"] == 1
    assert last["spirit_py_cutover_tries_total",] == 1
    assert 0 < last["spirit_py_lock_held_seconds",] < 60
    for before, after in pairwise((early, held, last)):
        counters = [name for name in before if name[0].endswith("_total")]
        assert [name for name in counters if after[name] < before[name]] == []
    text = page.read_text()
    require_self_contained(text)
    assert "3 000" in Seen(text).said
    assert_migrated(db)


def test_a_refused_migration_leaves_a_page_and_its_outcome(db, tmp_path):
    """Both say what refused it."""
    page, metrics = tmp_path / "run.html", tmp_path / "run.prom"
    done = run_here(
        db, "migrate", "--alter", "ADD x INT",
        "--report-html", str(page), "--metrics-file", str(metrics),
    )  # fmt: skip
    assert done.returncode == 2
    text = page.read_text()
    require_self_contained(text)
    assert f"{db.name}.t" in text
    assert "refused" in Seen(text).said
    assert samples(metrics.read_text())["spirit_py_outcome", "refused"] == 1


def test_an_address_in_use_ends_the_command_before_anything_is_written(db, tmp_path):
    """Exit code 2, the cause and the remedy; neither a new table nor a checkpoint is there."""
    fill(db)
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        done = run_here(
            db, "migrate", "--alter", "MODIFY a BIGINT",
            "--metrics-listen", f"127.0.0.1:{port}",
        )  # fmt: skip
    assert done.returncode == 2
    assert f"--metrics-listen 127.0.0.1:{port}" in done.stderr
    assert [row[0] for row in db.query("SHOW TABLES")] == ["t"]
