"""The operator's own command, called with each event of a run (``--on-event``, ``--hook-veto``).

::

    Reporters ──▶ Hook.event ──▶ queue ──▶ one thread ──▶ call(): /bin/sh -c CMD, in order
    Veto      ──▶ Hook.ask   ──┘                          event on stdin; the exit code answers

The run never waits for a hook, but for the answer of a veto. Whatever a hook does, the worst is a
warning: see :mod:`spirit_py.hooks.hook` for what a call cannot do to its caller.
"""
