"""Foreign keys of a table and to it: read, judged, and written as SQL.

``model`` describes one key, ``rules`` says which keys a swap can carry along, and ``catalogue``
reads the keys of a table and those to it. They become SQL in :mod:`spirit_py.attached.sequence`.
"""
