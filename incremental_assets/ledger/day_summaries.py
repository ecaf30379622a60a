"""The summaries of a table's days, by column: what is asked of all days makes no object of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date
from functools import cached_property
from typing import Any, TypeVar

import polars as pl

from incremental_assets.ledger.day_summary import NUMBERS, DaySummary

Day = date | None
_V = TypeVar("_V")


class DaySummaries(Mapping[Day, DaySummary]):
    """The summaries of a table's days; None is every day that looks its rows up.

    The methods that give one value of each day leave out those that have none: 0, or empty.
    """

    def __init__(self, stored: StoredDays, later: Mapping[Day, DaySummary] | None = None) -> None:
        self._stored = stored
        self._later = later or {}
        self._known: dict[str, Mapping[Day, int]] = {}
        self._watermarks: dict[str, Mapping[Day, int]] = {}

    def __getitem__(self, day: Day) -> DaySummary:
        return self._later[day] if day in self._later else self._stored.summary(day)

    def __iter__(self) -> Iterator[Day]:
        yield from self._stored.rows
        yield from (day for day in self._later if day not in self._stored.rows)

    def __len__(self) -> int:
        return len(self._stored.rows.keys() | self._later.keys())

    def numbers(self, name: str) -> Mapping[Day, int]:
        """Of each day a field of its summary that is a number."""
        if name not in self._known:
            stored = self._stored.numbers(name)
            self._known[name] = self._with_later(stored, lambda summary: getattr(summary, name))
        return self._known[name]

    def watermarks(self, upstream: str) -> Mapping[Day, int]:
        """Of each day how far an upstream was read."""
        if upstream not in self._watermarks:
            stored = self._stored.watermarks(upstream)
            self._watermarks[upstream] = self._with_later(
                stored, lambda summary: summary.read.get(upstream, 0)
            )
        return self._watermarks[upstream]

    @cached_property
    def positions(self) -> Mapping[Day, str]:
        """Of each day the change detector's position."""
        return self._with_later(self._stored.positions, lambda summary: summary.position)

    @cached_property
    def codes(self) -> Mapping[Day, tuple[str, ...]]:
        """Of each day the code versions that made it since it was rebuilt."""
        return self._with_later(self._stored.codes, lambda summary: summary.codes)

    def followed_by(self, later: Mapping[Day, DaySummary]) -> DaySummaries:
        """The summaries together with those of later batches."""
        merged = {d: self[d].followed_by(s) if d in self else s for d, s in later.items()}
        return DaySummaries(self._stored, {**self._later, **merged})

    def __contains__(self, day: object) -> bool:
        return day in self._later or day in self._stored.rows

    def _with_later(
        self, stored: Mapping[Day, _V], of: Callable[[DaySummary], _V]
    ) -> Mapping[Day, _V]:
        if not self._later:
            return stored
        found = {day: value for day, value in stored.items() if day not in self._later}
        found |= {day: value for day, s in self._later.items() if (value := of(s))}
        return found


class StoredDays:
    """The rows of a table in the index, a row a day. A column is read when it is asked for."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame.sort("day")
        self._numbers: dict[str, Mapping[Day, int]] = {}
        self._watermarks: dict[str, Mapping[Day, int]] = {}

    @cached_property
    def rows(self) -> Mapping[Day, int]:
        """The number of each day's row."""
        return {day: row for row, day in enumerate(self._frame["day"].to_list())}

    def summary(self, day: Day) -> DaySummary:
        """The summary of one day. Raises KeyError."""
        row = self._frame.row(self.rows[day], named=True)
        return DaySummary(
            **{name: row[name] or 0 for name in NUMBERS},
            position=row["position"] or "",
            read={each["upstream"]: each["high"] for each in row["read"] or ()},
            codes=tuple(row["codes"] or ()),
        )

    def numbers(self, name: str) -> Mapping[Day, int]:
        if name not in self._numbers:
            self._numbers[name] = self._column(self._frame[name])
        return self._numbers[name]

    def watermarks(self, upstream: str) -> Mapping[Day, int]:
        if upstream not in self._watermarks:
            read = self._frame.select("day", "read").explode("read").unnest("read")
            here = read.filter(pl.col("upstream") == upstream, pl.col("high") != 0)
            days, highs = here["day"].to_list(), here["high"].to_list()
            self._watermarks[upstream] = dict(zip(days, highs, strict=True))
        return self._watermarks[upstream]

    @cached_property
    def positions(self) -> Mapping[Day, str]:
        return self._column(self._frame["position"])

    @cached_property
    def codes(self) -> Mapping[Day, tuple[str, ...]]:
        # As a text, of which a long history has few: thousands of lists would be slow to make.
        texts = self._column(self._frame["codes"].list.eval(pl.element() + "\0").list.join(""))
        codes = {text: tuple(text.removesuffix("\0").split("\0")) for text in set(texts.values())}
        return {day: codes[text] for day, text in texts.items()}

    def _column(self, values: pl.Series) -> dict[Day, Any]:
        """The values of the days that have one."""
        found = zip(self.rows, values.to_list(), strict=True)
        return {day: value for day, value in found if value}
