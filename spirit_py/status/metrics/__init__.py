"""Figures of a run for Prometheus, by its official client; a scrape does no I/O."""
