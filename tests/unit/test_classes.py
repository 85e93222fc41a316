"""A class of ``spirit_py.classes`` behaves as one of the standard module."""

from __future__ import annotations

import dataclasses
import pickle
from dataclasses import KW_ONLY, FrozenInstanceError, InitVar, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest

from spirit_py import classes

if TYPE_CHECKING:
    from collections.abc import Callable


def _classes(dataclass: Callable[..., Any]) -> list[Any]:
    @dataclass(frozen=True)
    class Place:
        x: int
        y: int = 2
        names: list[str] = field(default_factory=list, compare=False)
        secret: str = field(default="s", repr=False)

    @dataclass(frozen=True, kw_only=True)
    class Named(Place):
        z: float
        fixed: tuple[int, ...] = field(default=(1, 2), init=False)
        made: dict[str, int] = field(default_factory=dict, init=False, compare=False)

        def __post_init__(self) -> None:
            if self.z < 0:
                raise ValueError("z")

    @dataclass
    class Open:
        x: int
        _: KW_ONLY
        y: int = 3

    @dataclass(frozen=True)
    class Derived:
        x: int
        start: InitVar[int] = 4
        y: int = field(default=0, init=False)

        def __post_init__(self, start: int) -> None:
            object.__setattr__(self, "y", start)

    @dataclass(frozen=True)
    class Empty:
        pass

    @dataclass(eq=False)
    class Held:
        x: int

    @dataclass(frozen=True)
    class Told:
        x: int

        def __repr__(self) -> str:
            return "told"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Told)

        def __hash__(self) -> int:
            return 1

    @dataclass(frozen=True)
    class Compared:  # noqa: PLW1641 - as a class of the program might be
        x: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Compared)

    @dataclass(frozen=True)
    class Further(Derived):
        z: int = 0

    return [Place, Named, Open, Derived, Empty, Held, Told, Compared, Further]


_CALLS: list[tuple[int, tuple[Any, ...], dict[str, Any]]] = [
    (0, (1,), {}),
    (0, (1, 3, ["a"], "t"), {}),
    (0, (), {}),
    (0, (1, 2, [], "s", 5), {}),
    (1, (1,), {"z": 2.5}),
    (1, (1, 2, [], "s", 5.0), {}),
    (1, (1,), {"z": -1.0}),
    (1, (1,), {"z": 1.0, "fixed": ()}),
    (2, (1,), {"y": 4}),
    (2, (1, 4), {}),
    (3, (1,), {}),
    (3, (1, 9), {}),
    (4, (), {}),
    (6, (1,), {}),
    (7, (1,), {}),
    (8, (1, 5, 6), {}),
]


def _played(kind: Any, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Everything that can be asked of an object: made, compared, hashed, changed, copied."""
    try:
        made = kind(*args, **named)
    except (TypeError, ValueError) as e:
        return {"refused": type(e)}
    found: dict[str, Any] = {
        "text": repr(made),
        "equal": made == kind(*args, **named),
        "to itself changed": made == replace(made, x=77) if hasattr(made, "x") else None,
        "to another class": made == object(),
        "fields": [one.name for one in dataclasses.fields(made)],
        "matched": kind.__match_args__,
        "whole": dataclasses.asdict(made),
    }
    for name, do in {
        "hash": lambda: hash(made) == hash(kind(*args, **named)),
        "set": lambda: setattr(made, "x", 1),
        "new": lambda: setattr(made, "other", 1),
        "del": lambda: delattr(made, "x"),
    }.items():
        try:
            found[name] = do()
        except (TypeError, FrozenInstanceError, AttributeError) as e:
            found[name] = type(e)
    return found


@pytest.mark.parametrize("call", _CALLS, ids=str)
def test_it_does_what_the_standard_one_does(
    call: tuple[int, tuple[Any, ...], dict[str, Any]],
) -> None:
    """Made, compared, hashed, printed, changed or refused: the same for each kind of class."""
    which, args, named = call
    ours, theirs = (
        _played(_classes(how)[which], args, named)
        for how in (classes.dataclass, dataclasses.dataclass)
    )

    assert ours == theirs


@pytest.mark.parametrize("changes", [{"x": 77}, {"y": 5}, {"z": -1.0}, {"fixed": ()}, {}], ids=str)
@pytest.mark.parametrize("call", _CALLS, ids=str)
def test_a_copy_with_other_values_is_the_standard_modules(
    call: tuple[int, tuple[Any, ...], dict[str, Any]], changes: dict[str, Any]
) -> None:
    """The same object, or the same refusal."""
    which, args, named = call
    try:
        made = _classes(classes.dataclass)[which](*args, **named)
    except (TypeError, ValueError):
        return
    found: list[Any] = []
    for change in (classes.replace, replace):
        try:
            changed = change(made, **changes)
        except (TypeError, ValueError) as e:
            found.append((type(e), str(e)))
        else:
            found.append((type(changed), repr(changed), vars(changed)))

    assert found[0] == found[1]


def test_a_copy_has_nothing_that_was_computed_and_kept() -> None:
    """What a ``cached_property`` has kept belongs to the old values."""
    made = _Computed(a=1)
    assert made.double == 2

    assert classes.replace(made, a=2).double == 4


@classes.dataclass(frozen=True)
class _Computed:
    a: int

    @cached_property
    def double(self) -> int:
        """Twice as much."""
        return 2 * self.a


@classes.dataclass(frozen=True, kw_only=True)
class _Kept:
    a: int
    b: tuple[int, ...] = ()


def test_an_object_is_pickled_and_read_again() -> None:
    """A record of a frozen class crosses a process, as one of the standard module does."""
    kept = _Kept(a=1, b=(2, 3))

    assert pickle.loads(pickle.dumps(kept)) == kept


def test_a_default_that_is_made_is_made_for_each_object() -> None:
    """A list that is the default of a field belongs to one object."""
    place = _classes(classes.dataclass)[0]

    assert place(1).names is not place(1).names


def test_objects_without_equality_are_equal_to_themselves_alone() -> None:
    """``eq=False`` keeps Python's comparison and hash by identity."""
    held = _classes(classes.dataclass)[5]
    one = held(1)

    assert one == one  # noqa: PLR0124
    assert one != held(1)
    assert len({one, held(1)}) == 2
