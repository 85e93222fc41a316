"""Figures of a run for Prometheus, by its official client library.

Snapshots are handed over; a scrape renders the last one and does no I/O. The registry is the run's
own: nothing of the process or of another run is in it. docs/metrics.md is the page for readers.
"""
