"""Texts that collations compare in surprising ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

#: Cases, accents, ligatures, letters that expand, contractions of Czech, Spanish, Hungarian and
#: Danish, spaces of several kinds, characters that are ignored, unassigned or beyond U+FFFF.
LETTERS = [
    *"aAbBcChHsSzZdDlLjJnNyYeE 1-.", "\t", "\0", "\x01", *"áàâäÄåÅæøœÿßéÉñÑçčČřžłđðþıİöüő",
    "ch", "Ch", "cS", "cs", "dzs", "ll", "LL", "ij", "ss", "ae", "oe", "aa", "nj", "ǆ", "ǅ",
    "\u00a0", "\u3000", "\u200b", "\u00ad", "\u0301", "\u0308", "\ufdfa", "ẞ", "ﬃ", "ﬀ", "ア",
    "あ", "ァ", "か", "が", "ー", "ｱ", "一", "丁", "한", "กา", "เก", "\uabcd", "\u0378",
    "\ue000", "\u064b", "\U0001f600", "\U00010400", "\U00020000", "\U000e0001", "\ufffd",
]  # fmt: skip


def text(made: random.Random, letters: list[str] = LETTERS, most: int = 4) -> str:
    """Return a random text."""
    drawn = "".join(made.choice(letters) for _ in range(made.randint(0, most)))
    return drawn + made.choice(["", "", " ", "  ", "\t", "\0", "\u00a0"])


def like(made: random.Random, given: str, letters: list[str] = LETTERS) -> str:
    """Return a text that some collation may equate with a given one."""
    match made.randrange(10):
        case 0:
            return given + " "
        case 1 | 2:
            return given.swapcase()
        case 3:
            return given + made.choice(["\0", "\u00a0", "\u0301", "\u00ad"])
        case 4:
            return given.replace("ß", "ss").replace("ä", "ae").replace("ö", "oe")
        case 5:
            return given.rstrip()
        case 6:
            return "".join(letter for letter in given if letter > "\x01")
        case 7 if given:
            at = made.randrange(len(given))
            return given[:at] + made.choice(letters) + given[at + 1 :]
        case 8:
            return given
    return text(made, letters)
