"""The interpreter's switch interval during swaps."""

from __future__ import annotations

import contextlib
import sys

from spirit_py.cutover.rename import quick_turns


def test_swaps_at_the_same_time_leave_the_usual_interval_behind():
    """Whichever of them ends first: the interval is quick until the last one ends."""
    usual = sys.getswitchinterval()
    with contextlib.ExitStack() as second:
        with quick_turns():
            second.enter_context(quick_turns())
            quick = sys.getswitchinterval()
        assert sys.getswitchinterval() == quick < usual
    assert sys.getswitchinterval() == usual
