"""What the operator sees: one frozen snapshot, shown on a terminal or as log lines."""
