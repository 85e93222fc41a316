"""The report of a run as one page of HTML, which needs no network and has no script."""
