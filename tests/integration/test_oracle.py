"""The oracle of the cases must see one lost row and one changed byte."""

from __future__ import annotations
