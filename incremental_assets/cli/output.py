"""What commands print: tables for a person, JSON for a program; progress and errors to stderr."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from rich.padding import Padding
from rich.text import Text

from incremental_assets.errors import OutputError
from incremental_assets.screen import GAP, Screen, grid, labelled

if TYPE_CHECKING:
    import polars as pl

_SHORT = 28  # characters that are never folded: a day, a name, a number
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
_FOLDED = 20  # characters that a column of longer text has at least
_NARROW = 12  # and where several columns have to be folded
_NUMBERING = re.compile(r"(^|_)(batch|run|checkpoint)$")  # columns whose numbers count nothing
_PART = re.compile(r"(?<=[/_])|(?<=\.\.\.)")  # where a name or a range of days may be folded


class _Output(Screen):
    """A screen that raises OutputError where nothing can be written to it."""

    def print(self, *what: Any, **how: Any) -> None:
        with refused_if_full():
            super().print(*what, **how)


@contextmanager
def refused_if_full() -> Iterator[None]:
    """Raises OutputError where what is printed meanwhile cannot be written."""
    try:
        yield
    except BrokenPipeError:  # the reader has read enough
        raise
    except OSError as error:
        raise _not_written(error) from error


def _not_written(error: OSError) -> OutputError:
    """The error for output that cannot be written; what is printed from now on is discarded."""
    with suppress(OSError):  # Python would try once more when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OutputError(f"cannot write the output: {error.strerror or error}")


OUT = _Output()
ERR = Screen(stderr=True)


def moment(at: datetime | None, *, plain: bool) -> datetime | str | None:
    """An instant for a person, in UTC, or as it is for a program."""
    return f"{at:%Y-%m-%d %H:%M:%S}" if at is not None and plain else at


def show(
    rows: pl.DataFrame,
    title: str,
    *,
    as_json: bool,
    can_lack: Sequence[str] = (),
    can_fold: Sequence[str] = (),
) -> None:
    """Rows as a table for a person, or as JSON for a program.

    Only text that is long is folded; days, names and numbers stay whole. On a narrow screen the
    columns that a table `can_fold` are as narrow as their longest word, and those that it
    `can_lack` are left out, the first one first; what is too wide even then is shown as records of
    a few lines.
    """
    if as_json:
        write(rows.write_json())
    elif rows.is_empty():
        OUT.print(f"{title}: nothing.")
    else:
        show_on(OUT, rows, title, can_lack, can_fold)


def show_on(
    screen: Screen,
    rows: pl.DataFrame,
    title: str,
    can_lack: Sequence[str] = (),
    can_fold: Sequence[str] = (),
) -> None:
    """Rows as a table, or as records where the screen is too narrow for one."""
    least = {name: _least(rows[name]) for name in rows.columns}
    for name in can_fold:
        if not _fits(screen, least):
            least[name] = min(least[name], _least_folded(rows[name]))
    left_out: list[str] = []
    for name in can_lack:
        if not _fits(screen, least) and name in least:
            left_out.append(name)
            del least[name]
    if not _fits(screen, least):
        _show_records(screen, rows, title)
        return
    _show_table(screen, rows.select(list(least)), title, least)
    if left_out:
        left = ", ".join(left_out)
        screen.print(f"The screen is too narrow for: {left}.", soft_wrap=True)


def _fits(screen: Screen, widths: Mapping[str, int]) -> bool:
    return sum(widths.values()) + GAP * (len(widths) - 1) <= screen.width


def _least(column: pl.Series) -> int:
    """How narrow a column may be: all of what is short, a few words of what is long."""
    longest = _longest(column)
    whole = longest <= _SHORT or column.name == "table"
    return max(len(column.name), longest if whole else _FOLDED)


def _least_folded(column: pl.Series) -> int:
    """How narrow a column that can be folded may be: as its longest part of a name, or wider."""
    words = (word for text in _texts(column) for word in text.split(" "))
    parts = (len(part) for word in words for part in _PART.split(word))
    return min(max(len(column.name), _NARROW, *parts), _FOLDED)


def _longest(column: pl.Series) -> int:
    return max(map(len, _texts(column)))


def _texts(column: pl.Series) -> Iterator[str]:
    return (_text(value, column.name) for value in column.to_list())


def _widths(screen: Screen, rows: pl.DataFrame, least: Mapping[str, int]) -> dict[str, int]:
    """The width of each column: what is left over goes to the text that takes the most lines."""
    widths = dict(least)
    room = screen.width - sum(least.values()) - GAP * (len(least) - 1)
    lacking = {name: _longest(rows[name]) for name in widths}
    while room > 0:
        name = max(widths, key=lambda name: lacking[name] / widths[name])
        if lacking[name] <= widths[name]:
            break
        widths[name] += 1
        room -= 1
    return widths


def _show_table(screen: Screen, rows: pl.DataFrame, title: str, least: Mapping[str, int]) -> None:
    table = grid(title)
    # Rich would share the room out itself, and cut lines off where it gave away too much.
    widths = _widths(screen, rows, least)
    for column, kind in rows.schema.items():
        align: Literal["left", "right"] = "right" if kind.is_numeric() else "left"
        table.add_column(column, justify=align, overflow="fold", width=widths[column])
    for row in zip(*map(_texts, rows), strict=True):
        cells = zip(row, widths.values(), strict=True)
        table.add_row(*(_folded(text, width) for text, width in cells))
    screen.print(table)


def _folded(text: str, width: int) -> str:
    """A text in lines of a width, which end between words, or in a name that fits no line."""
    lines = [""]
    for word in text.split(" "):
        for part in [word] if len(word) <= width else _PART.split(word):
            if lines[-1] and len(lines[-1]) + len(part) > width:
                lines.append("")
            lines[-1] += part
        lines[-1] += " "
    return "\n".join(line.rstrip(" ") for line in lines)


def _show_records(screen: Screen, rows: pl.DataFrame, title: str) -> None:
    """Each row in lines of its own: what is short side by side, what is long below it."""
    screen.print(f"{title}\n")
    for row in rows.iter_rows(named=True):
        texts = {name: text for name, value in row.items() if (text := _text(value, name))}
        lines: list[Text] = []
        for name in sorted(texts, key=lambda name: len(texts[name]) > _SHORT + _FOLDED):
            field = labelled(name, "bold", texts[name])
            if lines and len(lines[-1]) + GAP + len(field) <= screen.width - GAP:
                lines[-1].append(" " * GAP).append_text(field)
            else:
                lines.append(field)
        for number, line in enumerate(lines):
            screen.print(Padding.indent(line, GAP if number else 0), overflow="fold")
        screen.print()


def show_object(content: Mapping[str, Any]) -> None:
    """What was done, for a program: a JSON object; days are ISO 8601, decimals text, exact."""
    write(json.dumps(content, default=_plain))


def write(line: str) -> None:
    """A line of JSON for a program, in ASCII whatever the encoding is. Raises OutputError."""
    line = _BEYOND_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], line)
    with refused_if_full():
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def _plain(value: date | Decimal) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def _text(value: object, column: str) -> str:
    """A value for a person: numbers of rows and seconds as 1,234, those of a batch as they are."""
    if value is None:
        return ""
    if isinstance(value, int | float) and not (
        isinstance(value, bool) or _NUMBERING.search(column)
    ):
        return f"{value:,}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def log(line: str) -> None:
    """A line of progress."""
    ERR.print(line, soft_wrap=True)


def bad(label: str, text: str) -> None:
    """What went wrong, with a label that catches the eye."""
    ERR.print(labelled(label, "bold red", text), soft_wrap=True)
