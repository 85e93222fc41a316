"""Figures of a run for Prometheus, by its official client library.

    progress(snapshot) ──▶ Collector ◀── scrape: MetricsServer (HTTP), or a file

The display's tick hands snapshots over; a scrape renders the last one and does no I/O. The
registry is the run's own: nothing of the process, and nothing of another run, is in it.
``catalogue.py`` declares every metric, and docs/metrics.md is the page for those who read them.
"""
