"""What a migration will do and why, read before anything is written: ``spirit-py plan``.

::

    plan = make_plan(config, stop=switch)          everything, with a sample
    plan = brief_plan(config, contexts, decision, warnings)    the first screen of migrate
    plan.to_dict()                                 JSON
    text_of(plan), screen_of(plan)                 lines for a terminal: all, or in short
    brief_text(plan)                               one line for a log

Nothing is written: no table, no row, no binlog event, no lock that outlives a read. What the server
makes of the statement is tried on temporary tables of two sessions, which it does not log. A sample
of the rows is copied into such a table, and hashed, for a few seconds at most.

==============  ==================================================================================
``model``       the tree of values
``make``        reads the server and fills the tree
``definition``  what the statement makes of the definition, by the server's own answer; keys
``columns``     what happens to each column, and the key
``method``      INSTANT, INPLACE or copy, by the rules of :mod:`spirit_py.preflight.instant`
``environment`` disk, binlog, replicas, pace, triggers, foreign keys, locks
``earlier_run`` what an earlier run left and what becomes of it; who keeps the tables now
``sample``      measures; ``estimate`` makes times of that
``text``        the lines, whole and in short
==============  ==================================================================================

A refusal does not hide the rest: all that is found is in the plan, each with its remedy.
"""

from spirit_py.plan.make import brief_plan, make_plan
from spirit_py.plan.model import Plan
from spirit_py.plan.text import PlanLine, brief_text, screen_of, text_of

__all__ = ["Plan", "PlanLine", "brief_plan", "brief_text", "make_plan", "screen_of", "text_of"]
