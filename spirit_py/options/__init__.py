"""Every option, declared once: command line, help, configuration file and library are derived."""

import enum
from collections.abc import Callable, Container, Iterable, Mapping
from datetime import timedelta
from functools import cache
from itertools import count
from os import PathLike
from typing import Annotated, Any, Final, Literal, TypeAlias, get_type_hints

from spirit_py.classes import dataclass, replace
from spirit_py.errors import UsageFault

Form = enum.Enum(
    "Form",
    "DURATION DURATION_OR_NEVER SIZE LIMITS TABLE WINDOWS URL DSN ADDRESS PASSWORD SPARK_SETTING"
    " PATH FILE_READ FILE_WRITTEN",
)
"""How a value is written on the command line, where its Python type does not say it."""

Seconds: TypeAlias = Annotated[float | timedelta | str, Form.DURATION]
SecondsOrNever: TypeAlias = Annotated[float | timedelta | str, Form.DURATION_OR_NEVER]
Size: TypeAlias = Annotated[int | str, Form.SIZE]
Limits: TypeAlias = Annotated[Mapping[str, float] | str, Form.LIMITS]
Names: TypeAlias = str | Iterable[str]
Pairs: TypeAlias = Mapping[str, str] | Iterable[str]
SparkSettings: TypeAlias = Annotated[Pairs, Form.SPARK_SETTING]
TableNames: TypeAlias = Annotated[str | Iterable[str | tuple[str, str]], Form.TABLE]
Windows: TypeAlias = Annotated[Names, Form.WINDOWS]
Url: TypeAlias = Annotated[str, Form.URL]
Dsn: TypeAlias = Annotated[str, Form.DSN]
Address: TypeAlias = Annotated[str, Form.ADDRESS]
Password: TypeAlias = Annotated[str | Callable[[], str], Form.PASSWORD]
AnyPath: TypeAlias = Annotated[str | PathLike[str], Form.PATH]
FileRead: TypeAlias = Annotated[str | PathLike[str], Form.FILE_READ]
FileWritten: TypeAlias = Annotated[str | PathLike[str], Form.FILE_WRITTEN]
Statements: TypeAlias = Annotated[str | PathLike[str] | Iterable[str], Form.FILE_READ]
SslMode: TypeAlias = Literal["DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"]

_places: Final = count()


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option of a command.

    ``name`` is the keyword of a program, and without a last underscore the flag; ``form`` is None
    where the type says how a value is written, ``default`` where the configuration has it. The
    program's own name of the value is ``parameter``. Of the environment are ``variables`` besides
    ``SPIRIT_PY_NAME``; without ``environment`` neither, nor a configuration file. ``live`` is its
    name in ``ctl set``. ``common``: ``--help`` shows it where a command has many. It has no effect
    without one of ``needs``, or with ``unless``.
    """

    section: str
    place: tuple[int, bool]
    name: str = ""
    type: Any = None
    form: Form | None = None
    help: str = ""
    default: Any = None
    least: Any = None
    most: Any = None
    metavar: str | None = None
    parameter: str = ""
    variables: tuple[str, ...] = ()
    environment: bool = True
    live: str = ""
    common: bool = False
    needs: tuple[str, ...] = ()
    unless: str = ""

    @property
    def flag(self) -> str:
        """The option as it is written."""
        return f"--{self.name.rstrip('_').replace('_', '-')}"

    @property
    def off(self) -> str:
        """The option as it switches off what is on by default; empty for any other."""
        return f"--no-{self.flag[2:]}" if self.default is True else ""

    @property
    def repeated(self) -> bool:
        """Whether the option may be given several times."""
        return self.type in {Names, Pairs} or self.form is Form.TABLE


class Section:
    """A section of ``--help``, which declares its options."""

    def __init__(self, title: str, *, common: bool = False) -> None:
        self._title = title
        self._common = common
        self._place = next(_places)

    def __call__(self, *, first: bool = False, common: bool = False, **more: Any) -> Option:
        """Declare an :class:`Option`; ``first`` ones are shown before others of the section."""
        place = (self._place, not first)
        common = common or self._common
        return Option(section=self._title, place=place, common=common, **more)


BEGIN: Final = Section("To begin", common=True)
MANY: Final = Section("Many tables")
FLEET: Final = Section("Many servers")
CONNECTION: Final = Section("Connection")
TARGET: Final = Section("Target server")
SPEED: Final = Section("Speed")
WAIT: Final = Section("Throttling")
LOCKS: Final = Section("Locks and the cut-over")
OLD_TABLE: Final = Section("The old table")
ARCHIVE: Final = Section("Archive")
COMPARISON: Final = Section("Checksum")
DEFINITIONS: Final = Section("SQL modes and keys")
UNFINISHED: Final = Section("Resuming")
WRITERS: Final = Section("Other writers")
SPARK: Final = Section("Spark")
OUTPUT: Final = Section("Output")
HOOKS: Final = Section("Hooks")


@cache
def declared(arguments: type) -> tuple[Option, ...]:
    """Return the options of a TypedDict, in the order of ``--help``."""
    found = []
    for name, hint in get_type_hints(arguments, include_extras=True).items():
        *form, option, text = hint.__metadata__
        form = form[0] if form else None
        found.append(replace(option, name=name, type=hint.__origin__, form=form, help=text))
    # Within a section as they are declared: those of the bases first.
    return tuple(sorted(found, key=lambda one: one.place))


def require_needed(arguments: type, given: Container[str], values: Mapping[str, object]) -> None:
    """Raise UsageFault for an option that is given for this run, and has no effect in it.

    Those that are not ``given``, but set in a file or the environment, are defaults for many runs.
    """
    options = {one.name: one for one in declared(arguments)}
    for one in options.values():
        if one.unless and one.name in given and values[one.unless]:
            other = options[one.unless].flag
            raise UsageFault(
                f"{one.flag} has no effect with {other}", hint=f"leave {one.flag} or {other} out"
            )
        needed = [options[name] for name in one.needs if name in options]
        if not needed or one.name not in given:
            continue
        flag = one.flag if values[one.name] else one.off
        if not flag:
            continue
        off = (None, (), False)
        if all(two.name not in given and values[two.name] in (*off, two.default) for two in needed):
            names = " or ".join(two.flag for two in needed)
            raise UsageFault(
                f"{flag} goes with {names}, and has no effect alone",
                hint=f"add {names}, or leave {flag} out",
            )
