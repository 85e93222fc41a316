"""The report of a run as one page of HTML, which needs no network and has no script.

Timeline (what was seen) + report (what came out) ──▶ page.py ──▶ page.html.j2, page.css
└─▶ plots.py (pygal)
"""
