"""The server's weights of texts are its own equality and order, collation by collation (R6)."""

from __future__ import annotations

import random

import pytest

from spirit_py.table.values import CHARSETS, KeyWeights
from tests.kits.definitions import column
from tests.kits.draw import seed_of
from tests.kits.tables import open_session
from tests.kits.texts import like, text

SEED = seed_of("SPIRIT_PY_SEED")
PAIRS = 250
COLLATIONS = (
    "SELECT COLLATION_NAME, CHARACTER_SET_NAME, PAD_ATTRIBUTE FROM information_schema.COLLATIONS"
    " WHERE COLLATION_NAME <> 'utf8mb4_0900_bin' ORDER BY 1"
)


@pytest.mark.slow
def test_texts_have_equal_weights_where_the_server_equates_them(db):
    """For every collation that is used by weight, and random pairs of texts.

    Where the collation does not pad, the weights are also in the server's order.
    """
    made = random.Random(SEED)
    with open_session(db) as session:
        found = [row for row in session.query(COLLATIONS) if row[1] in CHARSETS]
        tried = equal = 0
        for collation, charset, pad in found:
            first = [text(made) for _ in range(PAIRS)]
            pairs = in_charset(session, [(one, like(made, one)) for one in first], charset)
            key = column("k", "varchar(60)", charset=charset, collation=collation,
                         pad_space=pad == "PAD SPACE")  # fmt: skip
            weights = KeyWeights([key])
            keys = [(each,) for pair in pairs for each in pair]
            ((_, question),) = weights.questions(keys, 1 << 22)
            flat = [weight for (weight,) in weights.weighed(keys, session.query(question))]
            answers = compared(session, pairs, charset, collation)
            for pair, one, other, (same, before) in zip(
                pairs, flat[::2], flat[1::2], answers, strict=True
            ):
                said = f"{collation}: {pair} SPIRIT_PY_SEED={SEED}"
                assert (one == other) == bool(same), said
                assert pad == "PAD SPACE" or (one < other) == bool(before), said
                equal += same
            tried += len(pairs)
        assert equal > tried // 5


def in_charset(session, pairs, charset):
    """Let the server write texts in a character set; those that it cannot become question marks."""
    rows = ", ".join(f"ROW(X'{one.encode().hex()}', X'{two.encode().hex()}')" for one, two in pairs)
    written = ", ".join(
        f"HEX(CONVERT(CONVERT(column_{n} USING utf8mb4) USING {charset}))" for n in (0, 1)
    )
    found = session.query(f"SELECT {written} FROM (VALUES {rows}) AS v")
    return [(bytes.fromhex(one), bytes.fromhex(two)) for one, two in found]


def compared(session, pairs, charset, collation):
    """Let the server compare pairs of texts: whether they are equal, and in order."""
    rows = ", ".join(f"ROW(X'{one.hex()}', X'{two.hex()}')" for one, two in pairs)
    one, two = (f"(CONVERT(column_{n} USING {charset}) COLLATE {collation})" for n in (0, 1))
    return session.query(f"SELECT {one} = {two}, {one} < {two} FROM (VALUES {rows}) AS v")


def test_long_texts_are_weighed_to_their_end(db):
    """Letters that expand to many weights do not cut the rest off."""
    with open_session(db) as session:
        found = [row for row in session.query(COLLATIONS) if row[1] == "utf8mb4"]
        for collation, charset, pad in found:
            key = column("k", "varchar(768)", charset=charset, collation=collation,
                         pad_space=pad == "PAD SPACE")  # fmt: skip
            weights = KeyWeights([key])
            begun = [letter * 190 for letter in ("\ufdfa", "ß", "ﬃ", "ch", "\U00020000", "㍿")]
            keys = [(f"{start}{end}".encode(),) for start in begun for end in (1, 2)]
            ((_, question),) = weights.questions(keys, 1 << 22)
            answer = weights.weighed(keys, session.query(question))
            assert len(set(answer)) == len(keys), collation
