"""What an earlier run left on a server: looked at, shown, carried on or cleaned away.

``look`` gathers what :mod:`spirit_py.checkpoint.decision` decides by, for ``spirit-py migrate``
and ``spirit-py status`` alike; ``shown`` is the status, ``cleanup`` drops what was abandoned.
"""
