"""The composition root: builds every part of a migration and runs the phases in order."""
