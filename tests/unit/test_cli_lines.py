"""Long lines of ``status`` and ``ctl``: wrapped at words on a terminal, whole in a pipe."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

from spirit_py.cli.outcome import say_error, say_hint, show_lines, wrapped

LONG = (
    "  statement  ADD COLUMN note VARCHAR(200), ADD INDEX customer (customer), DROP COLUMN nothing"
)


@pytest.mark.parametrize("width", [40, 60, 80, 140])
def test_a_line_is_wrapped_between_words_behind_its_label(width):
    """No word is cut, none is lost, and the label stands alone at the left."""
    parts = wrapped(LONG, width)
    assert max(map(len, parts)) <= width
    assert " ".join(" ".join(parts).split()) == " ".join(LONG.split())
    assert all(part.startswith(" " * len("  statement  ")) for part in parts[1:])
    assert (len(parts) > 1) == (width < len(LONG))


def test_a_word_that_is_wider_than_the_terminal_stays_whole():
    """It can be copied."""
    word = "x" * 60
    assert word in [part.strip() for part in wrapped(f"shop.orders: {word} and more", 40)]


@pytest.mark.parametrize("command", ["cleanup --drop-old", "ctl cutover --host db1", "migrate --x"])
def test_a_line_with_a_command_is_not_broken(command):
    """Pasted, its first half would be run: ``spirit-py cleanup``, without the option."""
    line = f"hint: see what it holds; then run spirit-py {command} and the same command again"
    assert wrapped(line, 40) == [line]


def test_a_pipe_gets_each_line_whole(capsys):
    """Whoever greps finds what is written; characters that control terminals are escapes."""
    show_lines([LONG * 3, "a\x1b[31mb"])
    assert capsys.readouterr().out.splitlines() == [LONG * 3, r"a\x1b[31mb"]


def test_a_terminal_gets_lines_of_its_width(monkeypatch, capsys):
    """As wide as it is now."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda **_: os.terminal_size((60, 24)))
    show_lines([LONG])
    assert capsys.readouterr().out.splitlines() == wrapped(LONG, 60)


@pytest.mark.parametrize(("say_it", "label"), [(say_error, "error"), (say_hint, "hint")])
def test_an_error_and_its_next_step_are_wrapped_between_words(monkeypatch, capsys, say_it, label):
    """On a terminal; no option is broken at its hyphens."""
    text = "the table is not changed; give --no-shortcut or --start-afresh, or ask spirit-py ctl"
    say_it(text)
    assert capsys.readouterr().err == f"{label}: {text}\n"
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda **_: os.terminal_size((40, 24)))
    say_it(text)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) <= 40
    assert " ".join(" ".join(lines).split()) == f"{label}: {text}"
