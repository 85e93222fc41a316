"""Rules broken on purpose: each breakage of ``breakages.toml`` makes its tests fail.

A breakage replaces one text of one file of the package, in a copy of the repository. Its tests are
played there and must fail: so the lane proves that the tests of docs/rules.md can fail.
"""
