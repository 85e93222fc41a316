"""May this migration run? One check a file; all of them run, all findings are reported together."""
