"""Printing to a terminal: text is printed as it is, wherever it comes from.

What is printed may hold what a feed, a file or an error says. So no text is read as markup, and
nothing in it reaches the terminal that would steer it: such characters are shown instead.
"""

from __future__ import annotations

import re
from typing import IO, Any

from rich.console import Console
from rich.text import Text

# Control characters but for tab and newline, and what turns the direction of text around.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    r"""Text whose control characters are shown: an escape as `\x1b`."""
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class Screen(Console):
    """A console for which all text is plain, also that in tables; styles are given as `Text`."""

    def __init__(self, file: IO[str] | None = None, **how: Any) -> None:
        super().__init__(file=file, markup=False, emoji=False, highlight=False, **how)

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(printable(text), **{**how, "markup": False, "emoji": False})


def labelled(label: str, style: str, text: str) -> Text:
    """A label in a style, and a text behind it."""
    return Text.assemble((printable(label), style), " ", printable(text))
