"""Screens of a terminal as one picture that moves, without a script.

The screens stand below each other in a strip, behind a window of one screen's height. The strip
moves by whole screens, by keyframes of CSS. Who prefers less motion gets one screen, which stands.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.text import Text

from terminal import picture

if TYPE_CHECKING:
    from collections.abc import Sequence

_LINE: Final = 24.4
"""Height of a line in rich's pictures."""
_CLIPS_OF_LINES: Final = re.compile(r'<clipPath id="[^"]*-line-\d+">.*?</clipPath>\s*', re.DOTALL)
_CLIPPED: Final = re.compile(r' clip-path="url\(#[^"]*-line-\d+\)"')
_HEIGHT: Final = re.compile(r'(viewBox="0 0 [\d.]+ |<rect [^>]*height=")([\d.]+)(?=")')


@dataclass(frozen=True, kw_only=True)
class Screen:
    """A screen, and for how many seconds it is shown."""

    lines: Sequence[Text]
    seconds: float


def film(screens: Sequence[Screen], *, columns: int, rows: int, title: str, still: int) -> str:
    """Return the SVG; `still` is the number of the screen that stands where nothing moves."""
    strip = [
        line
        for screen in screens
        for line in itertools.islice(
            itertools.chain(screen.lines, itertools.repeat(Text(""))), rows
        )
    ]
    drawn = _CLIPPED.sub("", _CLIPS_OF_LINES.sub("", picture(strip, columns, title)))
    beyond = (len(screens) - 1) * rows * _LINE
    head, body = drawn.split('<g transform="translate(9, 41)"', 1)
    # Of the picture, its frame and the window; the strip itself stays as high as it is.
    head = _HEIGHT.sub(lambda found: f"{found[1]}{float(found[2]) - beyond:g}", head)
    head = head.replace("</style>", f"{_style(screens, rows, still)}</style>", 1)
    frame, rest = body.split(">", 1)
    return f'{head}<g transform="translate(9, 41)"{frame}><g class="strip">{rest}'.replace(
        "</svg>", "</g></svg>"
    )


def _style(screens: Sequence[Screen], rows: int, still: int) -> str:
    """Return the keyframes: each screen stands until the next one."""
    whole = sum(screen.seconds for screen in screens)
    starts = itertools.accumulate((screen.seconds for screen in screens), initial=0.0)
    frames = "".join(
        f"{100 * start / whole:.3f}% {{ {_moved(number, rows)} }} "
        for number, start in zip(range(len(screens)), starts, strict=False)
    )
    return (
        f"@keyframes strip {{ {frames}100% {{ {_moved(len(screens) - 1, rows)} }} }}\n"
        f".strip {{ animation: strip {whole:.1f}s step-end infinite; }}\n"
        "@media (prefers-reduced-motion: reduce) {"
        f" .strip {{ animation: none; {_moved(still, rows)} }} }}\n"
    )


def _moved(number: int, rows: int) -> str:
    return f"transform: translateY({-number * rows * _LINE:.1f}px);"
