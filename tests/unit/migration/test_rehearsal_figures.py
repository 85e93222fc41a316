"""The rules and the words of a rehearsal's figures."""

from __future__ import annotations

import json

from spirit_py.migration.rehearsal import BinlogMeter, RehearsalFigures, ReplicaFigures, TableDisk


class TestBinlogMeter:
    def test_only_growth_of_the_binlog_is_counted(self):
        """What was there at the first look was not written by the run."""
        meter = BinlogMeter()
        meter.look([("b.1", 1000), ("b.2", 50)])
        assert meter.written == 0
        meter.look([("b.1", 1000), ("b.2", 80), ("b.3", 7)])
        assert meter.written == 37

    def test_purged_files_stay_counted(self):
        """A file that is gone takes nothing away, and a new one counts whole."""
        meter = BinlogMeter()
        meter.look([("b.1", 100)])
        meter.look([("b.1", 300), ("b.2", 10)])
        meter.look([("b.2", 500)])
        assert meter.written == 200 + 500

    def test_after_a_reset_the_same_file_begins_anew(self):
        """After RESET the same name begins anew."""
        meter = BinlogMeter()
        meter.look([("b.1", 100)])
        meter.look([("b.1", 900)])
        meter.look([("b.1", 40)])
        assert meter.written == 840


class TestWords:
    def test_every_figure_is_in_the_summary(self):
        """Every figure is in the summary, each replica in its own line."""
        figures = RehearsalFigures(
            binlog_bytes=3 << 20,
            own_binlog_bytes=1 << 20,
            tables=(TableDisk(schema="s", name="_t_new", size=5 << 30),),
            replicas=(
                ReplicaFigures(
                    address="r1:3306", lag_first=0.5, lag_max=12.34, lag_last=0.0, samples=3
                ),
                ReplicaFigures(address="r2:3306", trouble="cannot connect"),
            ),
            longest_lock_ms=12.4,
            longest_lock="snapshot",
            locks=3,
        )
        assert figures.lines() == [
            "  disk      5.0 GiB for s._t_new",
            "  binlog    3.0 MiB written by the server, 1.0 MiB of it rows of the new table",
            "  replicas  r1:3306 fell behind 12.3s at most, 0.0s at the end, 0.5s before the run",
            "            r2:3306 not measured (cannot connect)",
            "  locks     3 taken, the longest 12 ms (snapshot); the swap's is not rehearsed",
        ]

    def test_an_unmeasured_figure_is_never_shown_as_zero(self):
        """Nothing that was not measured is shown as zero."""
        figures = RehearsalFigures(trouble=("binlog: access denied",))
        assert figures.lines() == [
            "  disk      not measured",
            "  binlog    not measured",
            "  replicas  none found",
            "  locks     none taken; the swap's is not rehearsed",
            "  not known binlog: access denied",
        ]

    def test_the_figures_go_into_the_report_as_they_are(self):
        """The figures go into the report as they are."""
        figures = RehearsalFigures(tables=(TableDisk(schema="s", name="n", size=7),))
        assert json.loads(json.dumps(figures.to_dict()))["disk_bytes"] == 7
