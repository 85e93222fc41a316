"""The error tree: exit codes, and pickling as Spark does it."""

from __future__ import annotations

import inspect
import pickle

import pytest

from spirit_py import errors

CLASSES = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.SpiritError)
]
CODES = {
    errors.Refusal: 2,
    errors.UsageFault: 2,
    errors.OutcomeUnknown: 3,
    errors.DifferencesFound: 4,
    errors.EndedOnRequest: 143,
}


def _example(kind: type[errors.SpiritError]) -> errors.SpiritError:
    if kind is errors.Interrupted:
        return errors.Interrupted(15, hint="next")
    if kind is errors.ServerFault:
        return errors.ServerFault(1205, "Lock wait timeout", where="session 7", hint="next")
    return kind("what happened", hint="next", details=("a", "b"))


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_survives_pickling_with_all_its_fields(kind):
    """An error that comes back from an executor has the message and every field it had."""
    error = _example(kind)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert vars(again) == vars(error)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_has_the_exit_code_of_its_group(kind):
    """The exit code says whether anything was written (R16)."""
    if kind is errors.Interrupted:
        assert errors.Interrupted(2).exit_code == 130
        assert errors.Interrupted(15).exit_code == 143
        return
    expected = next((code for base, code in CODES.items() if issubclass(kind, base)), 1)
    assert _example(kind).exit_code == expected


def test_an_error_is_a_line_whatever_a_server_says():
    """A traceback shows it as it is, such as that of a framework's command."""
    error = errors.ServerFault(1, "\x1b]0;x\x07 a\u202eb", where="session\n7")
    assert str(error) == r"\x1b]0;x\x07 a\u202eb (error 1, session\n7)"
    assert error.text == "\x1b]0;x\x07 a\u202eb"
