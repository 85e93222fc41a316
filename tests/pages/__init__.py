"""Pages in a browser: what `make ci-pages` runs."""
