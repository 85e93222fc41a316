"""Whether a migration may run: one check a file; all run, and report their findings together."""
