"""The swap of a migration, with what may hold it back and what it leaves.

The protocol under the lock is :mod:`spirit_py.cutover`, which knows neither sentinels nor hooks.
A revert (:mod:`spirit_py.migration.reverse`) swaps back with the same parts.
"""
