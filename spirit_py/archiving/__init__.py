"""Rows of a table as Parquet files, written by Spark and proved: docs/archive.md says how it works.

:mod:`.columns` has the type and the hashed text of each column (pure), :mod:`.rows` reads rows as
Arrow's batches, :mod:`.source` is Spark's data source over both. :mod:`.archive` writes a table in
pieces, reads all files back and compares them with the server, :mod:`.folder` is where they go.
"""
