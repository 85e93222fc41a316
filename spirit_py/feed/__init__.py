"""From events to the applier: what waits, what may be dropped, what is safe to resume from.

docs/change-feed.md follows one changed row through all modules.
"""
