"""Python source of functions that walk the row images of one table (pure).

A row image is a null bitmap and the columns that are not NULL, one after the other. Three
functions are made for a table: ``split`` cuts an event into images and takes the keys,
``render`` makes SQL of an image, ``plain`` a dictionary. Each is made for a known null bitmap,
where neighbouring columns of fixed width are read by one :class:`struct.Struct` and unneeded ones
are skipped in one addition; and once for any bitmap, with a test for each nullable column.

The source of ``split`` for ``(id int, name varchar(20), born date)``, keyed by ``id``, all
columns NOT NULL::

    def split(d, o, end, append):
        while o < end:
            s = o
            k = u0(d, o + 1)
            o += d[o + 5] + 6
            o += 3
            append((codec, k, d[s:o]))
        return o
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from spirit_py.table.values import RenderedRow

if TYPE_CHECKING:
    from types import CodeType

    from spirit_py.binlog.codec.fields import Field

Splitter: TypeAlias = Callable[[bytes, int, int, Callable[[Any], None]], int]
Nulls: TypeAlias = int | None
"""A null bitmap that is known, as a number; None for any."""


def split_function(
    fields: Sequence[Field], key: Sequence[int], nulls: Nulls, codec: object
) -> Splitter:
    """Make ``split(data, at, end, append) -> at``.

    It appends ``(codec, key, image bytes)`` for image after image while they have the null
    bitmap it was made for, or one image where it was made for any.
    """
    walk = _Walk(fields, nulls, indent=2)
    plain = all(fields[i].key == "{v}" for i in key)
    if plain:
        walk.together = [f"v{i}" for i in key]
    for index, field in enumerate(fields):
        # A NULL in the key never comes here.
        walk.step(field, wanted=index in key, text="None", missing="None")
    walk.finish()
    source = ["def split(d, o, end, append):", "    while o < end:"]
    if walk.optional and nulls is not None:
        source.append(f"        if d[o:o + {walk.bitmap_bytes}] != bitmap:")
        source.append("            return o")
    elif walk.optional:
        source.append(f"        n = int_of(d[o:o + {walk.bitmap_bytes}], 'little')")
    values = "(" + "".join(f"{fields[i].key.format(v=f'v{i}')}, " for i in key) + ")"
    key_made = "k" if key and not walk.together and plain else values
    source += ["        s = o", *walk.lines, f"        append((codec, {key_made}, d[s:o]))"]
    if walk.optional and nulls is None:
        source.append("        return o")
    made: Splitter = _compiled([*source, "    return o"], "split", fields, walk, codec=codec)
    return made


def render_function(
    fields: Sequence[Field], order: Sequence[int], nulls: Nulls
) -> Callable[[bytes], RenderedRow]:
    """Make ``render(image) -> RenderedRow`` of the columns in ``order``, which are places."""
    walk = _Walk(fields, nulls)
    staged: list[str] = []
    pieces: dict[int, str] = {}
    for index in range(max(order, default=-1) + 1):
        field = fields[index]
        before, expression, after = field.literal
        shown = f"{before}{{{expression.format(v=f'v{index}')}}}{after}"
        present = walk.step(field, wanted=index in order, text=f'f"""{shown}"""', missing="'NULL'")
        if present is None:
            pieces[index] = f"{{t{index}}}"
        else:
            pieces[index] = shown if present else "NULL"
        if field.zero_is_staged and index in order and present is not False:
            staged.append(f"v{index} == 0")
    walk.finish()
    row = ", ".join(pieces[index] for index in order)
    flag = " or ".join(staged) or "False"
    result = f'    return row((f"""({row})""", {flag}))'
    source = ["def render(d):", *walk.opening(), *walk.lines, result]
    new = partial(tuple.__new__, RenderedRow)
    made: Callable[[bytes], RenderedRow] = _compiled(source, "render", fields, walk, row=new)
    return made


def plain_function(fields: Sequence[Field], nulls: Nulls) -> Callable[[bytes], dict[str, Any]]:
    """Make ``plain(image) -> dict`` of all columns, with values that JSON can carry."""
    walk = _Walk(fields, nulls)
    items = []
    for index, field in enumerate(fields):
        value = field.plain.format(v=f"v{index}")
        present = walk.step(field, wanted=True, text=value, missing="None")
        shown = f"t{index}" if present is None else value if present else "None"
        items.append(f"{field.name!r}: {shown}")
    walk.finish()
    source = ["def plain(d):", *walk.opening(), *walk.lines, f"    return {{{', '.join(items)}}}"]
    made: Callable[[bytes], dict[str, Any]] = _compiled(source, "plain", fields, walk)
    return made


@lru_cache(maxsize=64)
def _code(source: str) -> CodeType:
    """Compile a source; the next dump of the same table has the same one."""
    return compile(source, "<row codec>", "exec")


def _compiled(
    source: list[str], name: str, fields: Sequence[Field], walk: _Walk, **names: object
) -> Any:
    """Run the source, which is made of our own pieces and column places only."""
    scope: dict[str, Any] = {"int_of": int.from_bytes, "bitmap": walk.bitmap, **names}
    scope |= walk.unpackers
    for field in fields:
        scope |= field.helpers
    exec(_code("\n".join(source)), scope)  # noqa: S102  the pieces are ours, names come in by repr
    return scope[name]


class _Walk:
    """Lines that step through an image, column by column, with as few additions as possible.

    In the lines ``d`` is the data, ``o`` the place reached so far, less the bytes of fixed
    width that are pending, ``n`` the null bitmap, ``v<i>`` a raw value, ``t<i>`` a finished
    one of a column that may be NULL.
    """

    def __init__(self, fields: Sequence[Field], nulls: Nulls, indent: int = 1) -> None:
        self.lines: list[str] = []
        self.unpackers: dict[str, Callable[..., Any]] = {}
        self.bitmap_bytes = (len(fields) + 7) // 8
        self.optional = any(field.nullable for field in fields)
        self.bitmap = b"" if nulls is None else nulls.to_bytes(self.bitmap_bytes, "little")
        #: Values that, when one struct reads just them, stay the tuple ``k`` that it returns.
        self.together: list[str] = []
        self._nulls = nulls
        self._margin = "    " * indent
        self._pending = self.bitmap_bytes
        self._run: list[str] = []
        self._run_start = 0
        self._run_names: list[str] = []

    def opening(self) -> list[str]:
        """Return the lines that begin a function of one image."""
        lines = [self._margin + "o = 0"]
        if self._nulls is None and self.optional:
            lines.append(f"{self._margin}n = int_of(d[:{self.bitmap_bytes}], 'little')")
        return lines

    def step(self, field: Field, *, wanted: bool, text: str = "", missing: str = "") -> bool | None:
        """Step over a column; True when it is there, False when NULL, None when only a row tells.

        ``wanted``: read its value into ``v<i>``. The expressions for ``t<i>``: ``text`` finishes
        the value, ``missing`` is of a NULL.
        """
        if field.nullable and self._nulls is None:
            self._optional(field, wanted=wanted, text=text, missing=missing)
            return None
        if field.nullable and self._nulls is not None and self._nulls >> field.index & 1:
            return False
        if field.code:
            self._fixed(field, wanted=wanted)
        else:
            self._end_run()
            self._variable(field, wanted=wanted)
        return True

    def finish(self) -> None:
        self._end_run()
        self._settle(self._margin)

    def _line(self, text: str) -> None:
        self.lines.append(self._margin + text)

    def _settle(self, margin: str) -> None:
        if self._pending:
            self.lines.append(f"{margin}o += {self._pending}")
            self._pending = 0

    def _at(self, more: int = 0) -> str:
        distance = self._pending + more
        return f"o + {distance}" if distance else "o"

    def _fixed(self, field: Field, *, wanted: bool) -> None:
        """Add a column of fixed width to the run that one struct reads."""
        if wanted or self._run:
            if not self._run:
                self._run_start = self._pending
            self._run.append(field.code if wanted else f"{field.width}x")
            if wanted:
                self._run_names.append(f"v{field.index}")
        self._pending += field.width

    def _end_run(self) -> None:
        while self._run and self._run[-1].endswith("x"):
            self._run.pop()
        if self._run:
            name = self._unpacker("".join(self._run))
            at = f"o + {self._run_start}" if self._run_start else "o"
            target = f"{', '.join(self._run_names)},"
            if self._run_names == self.together:
                target, self.together = "k", []
            self._line(f"{target} = {name}(d, {at})")
        self._run, self._run_names = [], []

    def _unpacker(self, codes: str) -> str:
        name = f"u{len(self.unpackers)}"
        self.unpackers[name] = struct.Struct("<" + codes).unpack_from
        return name

    def _variable(self, field: Field, *, wanted: bool, margin: str = "") -> None:
        margin = margin or self._margin
        if field.prefix == 1:
            size = f"d[{self._at()}]"
        elif field.prefix == 2:
            size = f"(d[{self._at()}] | d[{self._at(1)}] << 8)"
        else:
            size = f"int_of(d[{self._at()}:{self._at(field.prefix)}], 'little')"
        if wanted:
            start = self._at(field.prefix)
            self.lines.append(f"{margin}e = {start} + {size}")
            self.lines.append(f"{margin}v{field.index} = d[{start}:e]")
            self.lines.append(f"{margin}o = e")
        else:
            self.lines.append(f"{margin}o += {size} + {self._pending + field.prefix}")
        self._pending = 0

    def _optional(self, field: Field, *, wanted: bool, text: str, missing: str) -> None:
        self._end_run()
        self._settle(self._margin)
        inner = self._margin + "    "
        bit = 1 << field.index
        if not wanted:
            self._line(f"if not n & {bit}:")
        else:
            self._line(f"if n & {bit}:")
            self.lines.append(f"{inner}t{field.index} = {missing}")
            self.lines.append(f"{inner}v{field.index} = None")
            self._line("else:")
        if not field.code:
            self._variable(field, wanted=wanted, margin=inner)
        else:
            if wanted:
                self.lines.append(f"{inner}v{field.index}, = {self._unpacker(field.code)}(d, o)")
            self.lines.append(f"{inner}o += {field.width}")
        if wanted:
            self.lines.append(f"{inner}t{field.index} = {text}")
