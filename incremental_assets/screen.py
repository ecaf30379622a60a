"""Printing to a terminal: text is printed as it is, wherever it comes from.

The text may come from a feed, a file or an error. So no text is read as markup, and control
characters are never sent to the terminal: they are shown as escapes instead.
"""

from __future__ import annotations

import re
from typing import IO, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

_PIPE_COLUMNS = 10_000  # a pipe or a file has no edge at which lines would have to end

# Control characters but for tab and newline, and what turns the direction of text around.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""Text whose control characters are shown: an escape as `\x1b`."""
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class Screen(Console):
    """A console for which all text is plain, also that in tables; styles are given as `Text`."""

    def __init__(self, file: IO[str] | None = None, **how: Any) -> None:
        super().__init__(file=file, markup=False, emoji=False, highlight=False, **how)
        self._stands_for_terminal = bool(how.get("force_terminal"))

    @property  # type: ignore[misc]  # nothing sets it
    def size(self) -> ConsoleDimensions:
        """The size by Rich; only a terminal limits the width, not a pipe with FORCE_COLOR."""
        found = super().size
        if self._stands_for_terminal or self.file.isatty():
            return found
        return ConsoleDimensions(max(found.width, _PIPE_COLUMNS), found.height)

    def print(self, *what: Any, **how: Any) -> None:
        if len(what) == 1 and not how.get("soft_wrap"):
            (one,) = what
            drawn = self.render_str(one) if isinstance(one, str) else one
            if isinstance(drawn, Table | Padding | Text):
                what = (_Trimmed(drawn),)
        super().print(*what, **how)

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(printable(text), **{**how, "markup": False, "emoji": False})


class _Trimmed:
    """What is drawn in lines, without the spaces that they end with at the right edge."""

    def __init__(self, drawn: Table | Padding | Text) -> None:
        self._drawn = drawn

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in console.render_lines(self._drawn, options, pad=False):
            while line and not line[-1].text.strip():
                line.pop()
            if line:
                *before, last = line
                yield from before
                yield Segment(last.text.rstrip(), last.style, last.control)
            yield Segment.line()


GAP = 2
"""Spaces between two columns of a grid."""


def grid(title: str) -> Table:
    """An empty table without lines between its columns: they would cost a screen its width."""
    return Table(
        title=title,
        title_justify="left",
        header_style="bold",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, GAP - 1, 0, 0),
    )


def labelled(label: str, style: str, text: str) -> Text:
    """A label in a style, and a text behind it."""
    return Text.assemble((printable(label), style), " ", printable(text))
