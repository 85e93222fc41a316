"""Rows of a table as Parquet files that Spark writes, and their proof: docs/commands/archive.md.

:mod:`.columns` has the type and the hashed text of each column (pure), :mod:`.rows` reads rows as
Arrow's batches, :mod:`.session` hands them to Spark. :mod:`.archive` writes a table in
pieces, reads all files back and compares them with the server, :mod:`.folder` is where they go.
"""
