"""The questions for the weights of keys, and what their answers say (R6)."""

from __future__ import annotations

import pytest

from spirit_py.errors import PacketTooSmall
from spirit_py.table.values import KeyWeights, weighable
from tests.kits.definitions import column

NO_PAD = column("name", "varchar(20)")
PADDED = column("name", "varchar(20)", collation="utf8mb4_general_ci", pad_space=True)
EXACT = column("name", "varchar(20)", collation="utf8mb4_0900_bin")
NUMBER = column("id")


@pytest.mark.parametrize(
    ("columns", "usable"),
    [
        ([NO_PAD], True),
        ([PADDED], True),
        ([NUMBER, PADDED], True),
        ([EXACT, NO_PAD], True),
        ([NUMBER], True),
        ([column("x", "double"), NO_PAD], False),
        ([column("x", "varchar(9)", charset="tis620", collation="tis620_thai_ci")], False),
        ([column("x", "varchar(9)", charset="gbk", collation="gbk_chinese_ci")], False),
        ([], False),
    ],
)
def test_only_proven_weights_are_used(columns, usable):
    """Texts of the character sets that were tried, beside columns that are comparable."""
    assert weighable(columns) is usable


def test_a_question_asks_for_the_texts_and_for_a_space():
    """Each text goes with its character set, and is weighed under the column's collation."""
    made = KeyWeights([NUMBER, PADDED])
    ((keys, question),) = made.questions([(7, b"ab"), (8, b"\xc3\xa9")], 1 << 20)
    assert keys == [(7, b"ab"), (8, b"\xc3\xa9")]
    assert question == (
        "SELECT column_0, WEIGHT_STRING(column_1 COLLATE utf8mb4_general_ci) FROM"
        " (VALUES ROW(-1, _utf8mb4 X'20'), ROW(0, _utf8mb4 X'6162'), ROW(1, _utf8mb4 X'c3a9'))"
        " AS weighed"
    )


def test_a_question_is_as_long_as_the_server_takes():
    """Many keys are asked for in several questions, each once and in order."""
    made = KeyWeights([NO_PAD])
    keys = [(b"%04d" % number,) for number in range(500)]
    asked = list(made.questions(keys, 1000))
    assert [key for part, _ in asked for key in part] == keys
    assert all(len(question) <= 1000 for _, question in asked)
    assert all("ROW(0, " in question and "ROW(-1, " in question for _, question in asked)


def test_a_key_longer_than_a_question_is_asked_for_alone():
    """Its own question may be longer."""
    made = KeyWeights([NO_PAD])
    keys = [(b"a" * 10,), (b"b" * 3000,), (b"c" * 10,)]
    assert [list(part) for part, _ in made.questions(keys, 1000)] == [[key] for key in keys]


@pytest.mark.parametrize(
    ("charset", "space"),
    [("latin1", "20"), ("utf16le", "2000"), ("utf32", "00000020"), ("utf16", "0020")],
)
def test_a_space_is_one_in_its_character_set(charset, space):
    """Wide character sets write it with more bytes."""
    made = KeyWeights([column("x", "char(3)", charset=charset, collation="c", pad_space=True)])
    ((_, question),) = made.questions([(b"abcd",)], 1 << 20)
    assert f"ROW(-1, _{charset} X'{space}')" in question


def test_answers_may_come_in_any_order():
    """Each answer has the number of its key."""
    made = KeyWeights([NO_PAD])
    answer = [(1, b"B"), (-1, b" "), (0, b"A")]
    assert made.weighed([(b"a",), (b"b",)], answer) == [(b"A",), (b"B",)]


def test_weights_of_trailing_spaces_are_cut_off_where_the_collation_pads():
    """Whole weights only, and only at the end."""
    made = KeyWeights([NUMBER, PADDED, EXACT])
    spaces = (-1, b"\x02\x09")
    answer = [
        spaces,
        (0, b"\x0e\x33\x02\x09\x02\x09"),
        (1, b"\x02\x09\x0e\x33"),
        (2, b"\x02\x09"),
        (3, b"\x0e\x02\x09\x02"),
        (4, b""),
    ]
    keys = [(n, b"", b"x") for n in range(5)]
    assert made.weighed(keys, answer) == [
        (0, b"\x0e\x33", b"x"),
        (1, b"\x02\x09\x0e\x33", b"x"),
        (2, b"", b"x"),
        (3, b"\x0e\x02\x09\x02", b"x"),
        (4, b"", b"x"),
    ]


def test_weights_stay_whole_where_spaces_count():
    """A collation that does not pad tells 'a' from 'a '."""
    made = KeyWeights([NO_PAD])
    answer = [(-1, b"\x02\x09"), (0, b"\x0e\x33\x02\x09")]
    assert made.weighed([(b"a ",)], answer) == [(b"\x0e\x33\x02\x09",)]


def test_every_text_of_a_key_is_replaced():
    """The other columns stay."""
    made = KeyWeights([NO_PAD, NUMBER, PADDED])
    answer = [(-1, b" ", b"_"), (0, b"A ", b"B_")]
    assert made.weighed([(b"a ", 5, b"b")], answer) == [(b"A ", 5, b"B")]


@pytest.mark.parametrize("columns", [[NO_PAD], [PADDED], [NUMBER, NO_PAD]])
def test_a_weight_for_which_the_server_has_no_room_is_a_fault(columns):
    """It answers NULL for each text that may weigh more than max_allowed_packet: none are equal."""
    made = KeyWeights(columns)
    key = (7, b"a")[-len(columns) :]
    with pytest.raises(PacketTooSmall, match="max_allowed_packet"):
        made.weighed([key], [(-1, b" "), (0, None)])
