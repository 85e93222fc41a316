"""What ``make bench`` measures; see docs/benchmarks.md."""
