"""Messages of a gang are opened only as they were closed, where they were put (R26)."""

from __future__ import annotations

import json
import pickle

import pytest

from spirit_py.spark.member import Seal

MESSAGE = {"rank": 1, "answers": [[1, "ä 'x'"]]}


def test_a_sealed_message_comes_back():
    """Also with a key that was pickled, as Spark's tasks get it."""
    seal = Seal()
    sealed = seal.close(MESSAGE, "letter", 7).encode()
    assert pickle.loads(pickle.dumps(seal)).open(sealed, "letter", 7) == MESSAGE


@pytest.mark.parametrize("place", [("letter", 8), ("orders", 7), ("letter",), ("letter", "7")])
def test_a_message_proves_nothing_in_another_place(place):
    """Of another sender, or in the other direction."""
    seal = Seal()
    assert seal.open(seal.close(MESSAGE, "letter", 7).encode(), *place) is None


@pytest.mark.parametrize(
    "text", ["", "x", json.dumps(MESSAGE), "0" * 64 + json.dumps(MESSAGE), "é" * 70]
)
def test_what_was_not_sealed_is_nothing(text):
    """Plain texts, short ones, and those with a code that somebody made up."""
    assert Seal().open(text.encode(), "letter", 7) is None


def test_each_gang_has_a_key_of_its_own_and_shows_it_to_nobody():
    """A message of another gang is nothing, and the key is in no text of the program."""
    seal = Seal()
    assert Seal().open(seal.close(MESSAGE).encode()) is None
    assert repr(seal) == "Seal()"
