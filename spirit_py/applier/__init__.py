"""The one write path into new tables for changes and repairs."""
