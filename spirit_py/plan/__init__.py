"""What a migration will do and why, read before anything is written: ``spirit-py plan``.

Nothing is written: no table, no row, no binlog event, no lock that outlives a read. What the server
makes of the statement is tried on temporary tables of two sessions, which it does not log. A sample
of the rows is copied into such a table, and hashed, for a few seconds at most. A refusal does not
hide the rest: all that is found is in the plan, each with its remedy.
"""

from spirit_py.plan.make import brief_plan, make_plan
from spirit_py.plan.model import Plan
from spirit_py.plan.text import PlanLine, brief_text, screen_of, text_of

__all__ = ["Plan", "PlanLine", "brief_plan", "brief_text", "make_plan", "screen_of", "text_of"]
