"""The swap: lock, flush, prove, rename, and what to do when an answer is lost (R15)."""
