"""What commands print: tables for a person, JSON for a program, progress and errors beside them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal

import polars as pl
from rich.table import Table as RichTable

from incremental_assets.screen import Screen, labelled

_SHORT = 28  # characters that are not folded where there is room
_WIDE = 200  # characters of a line that no person's terminal bounds
OUT = Screen()
ERR = Screen(stderr=True)


def moment(at: datetime | None, *, plain: bool) -> datetime | str | None:
    """An instant for a person, in UTC, or as it is for a program."""
    return f"{at:%Y-%m-%d %H:%M:%S}" if at is not None and plain else at


def show(rows: pl.DataFrame, title: str, *, as_json: bool) -> None:
    """Rows as a table for a person, or as JSON for a program."""
    if as_json:
        sys.stdout.write(rows.write_json() + "\n")
        return
    if rows.is_empty():
        OUT.print(f"{title}: nothing.")
        return
    width = OUT.width if OUT.is_terminal else max(OUT.width, _WIDE)
    longest = [max(len(column), *map(len, map(_text, rows[column]))) for column in rows.columns]
    unfolded = [min(length, _SHORT) for length in longest]
    fits = sum(unfolded) + 3 * len(unfolded) < width
    grid = RichTable(title=title, header_style="bold")
    for (column, kind), least in zip(rows.schema.items(), unfolded, strict=True):
        align: Literal["left", "right"] = "right" if kind.is_numeric() else "left"
        grid.add_column(column, justify=align, overflow="fold", min_width=least if fits else None)
    for row in rows.iter_rows():
        grid.add_row(*map(_text, row))
    Screen(width=width).print(grid)


def show_object(told: Mapping[str, Any]) -> None:
    """What was done, for a program: a JSON object; days are ISO 8601, decimals text, exact."""
    sys.stdout.write(json.dumps(told, default=_plain) + "\n")


def _plain(value: date | Decimal) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def _text(value: object) -> str:
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def say(line: str) -> None:
    """A line of progress."""
    ERR.print(line, soft_wrap=True)


def bad(label: str, text: str) -> None:
    """What went wrong, with a label that catches the eye."""
    ERR.print(labelled(label, "bold red", text), soft_wrap=True)
