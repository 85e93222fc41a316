"""Foreign keys of a table and to it: read, judged, and written as SQL.

``model`` describes one key, ``catalogue`` reads the keys of a table and those to it, and
``statements`` is the one place where a key becomes SQL.
"""
