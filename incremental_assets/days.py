"""Days, ranges of days and moments, all in UTC."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from incremental_assets.errors import DayError

ONE_DAY = timedelta(days=1)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_LIKE_A_DAY = re.compile(r"(?<!\d)(\d{4})\D?(\d{1,2})\D?(\d{1,2})(?!\d)", re.ASCII)
_A_DAY = "the form 2017-01-31"
_DAYS = f"{_A_DAY}, or A...B with three dots for a range, both ends included"


@dataclass(frozen=True, slots=True, order=True)
class DayRange:
    """Days from `first` to `last`, both included."""

    first: date
    last: date

    def __iter__(self) -> Iterator[date]:
        for offset in range(len(self)):
            yield self.first + offset * ONE_DAY

    def __len__(self) -> int:
        return (self.last - self.first).days + 1

    def __contains__(self, day: object) -> bool:
        return isinstance(day, date) and self.first <= day <= self.last

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}...{self.last}"


def parse_day(text: str) -> date:
    """Read `2017-01-31`; raises DayError for anything else."""
    return _parse(text, _A_DAY, most=1)


def parse_days(text: str) -> DayRange:
    """Read a day or a range `A...B`, both ends included; raises DayError, also when reversed."""
    first, dots, last = text.partition("...")
    return day_range(_parse(first, _DAYS, most=2), _parse(last if dots else first, _DAYS, most=2))


def _parse(text: str, expected: str, most: int) -> date:
    try:
        if _DAY.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise DayError(f"{text!r} is not a day{_meant(text, most) or f'; expected {expected}.'}")


def _meant(text: str, most: int) -> str:
    """`; did you mean …?` where the text holds a day, or at `most` two, in another form."""
    try:
        days = [str(date(*map(int, parts))) for parts in _LIKE_A_DAY.findall(text)]
    except ValueError:
        return ""
    return f"; did you mean {'...'.join(days)}?" if 1 <= len(days) <= most else ""


def batch_or_moment(text: str) -> int | datetime:
    """Read a batch number, or a day or moment of ISO 8601, UTC unless an offset is given.

    Raises DayError for anything else.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise DayError(
            f"{text!r} is neither a batch, such as 12, nor a moment, such as 2017-01-05T10:00."
        ) from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def day_range(first: date, last: date) -> DayRange:
    """A range that is not empty; raises DayError when it is reversed."""
    if last < first:
        raise DayError(
            f"The range {first}...{last} ends before it begins; did you mean {last}...{first}?"
        )
    return DayRange(first, last)


def within_partitions(days: DayRange | None, start: date, today: date) -> DayRange:
    """The given days that have partitions; all partitions where no days are given.

    Raises DayError where none of the days has a partition.
    """
    if start > today:
        raise DayError(
            f"The first partition, {start}, is in the future. Set INCREMENTAL_ASSETS_START_DATE to "
            "the first day that is to be loaded."
        )
    if days is None:
        return DayRange(start, today)
    if days.last < start or days.first > today:
        raise DayError(
            f"{days} is outside the partitions {start}...{today}. Name days among them, or set "
            "INCREMENTAL_ASSETS_START_DATE to an earlier first day."
        )
    return DayRange(max(days.first, start), min(days.last, today))


def contiguous(days: Iterable[date]) -> list[DayRange]:
    """The fewest ranges that cover just these days, in order."""
    ranges: list[DayRange] = []
    for day in sorted(set(days)):
        if ranges and ranges[-1].last + ONE_DAY == day:
            ranges[-1] = DayRange(ranges[-1].first, day)
        else:
            ranges.append(DayRange(day, day))
    return ranges


def chunks(days: Sequence[date], size: int) -> Iterator[Sequence[date]]:
    """The days in order, at most `size` at a time."""
    for start in range(0, len(days), size):
        yield days[start : start + size]


def utc_today(now: datetime) -> date:
    """The UTC day of an instant."""
    return now.astimezone(UTC).date()


def named(days: Iterable[date], most: int = 5) -> str:
    """Days for a message: ranges, at most `most` of them."""
    ranges = contiguous(days)
    shown = ", ".join(str(r) for r in ranges[:most])
    return shown if len(ranges) <= most else f"{shown} and {len(ranges) - most} more"
