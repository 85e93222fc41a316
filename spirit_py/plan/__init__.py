"""What a migration will do and why, read before anything is written: ``spirit-py plan``."""

from spirit_py.plan.definition import keys_lost
from spirit_py.plan.make import brief_plan, make_plan
from spirit_py.plan.model import Plan
from spirit_py.plan.text import PlanLine, brief_text, screen_of, text_of

__all__ = [
    "Plan", "PlanLine", "brief_plan", "brief_text", "keys_lost",
    "make_plan", "screen_of", "text_of",
]  # fmt: skip
