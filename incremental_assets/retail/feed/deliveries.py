"""Deliveries: what lands when, by landing day, as the files that it lands in. Pure."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

import polars as pl

from incremental_assets.days import ONE_DAY

MAX_DELAY_DAYS: Final = 3
"""No row lands later than this many days after its time, and neither does its duplicate."""

SECOND: Final = timedelta(seconds=1)
_HOURS_IN_A_FILE: Final = 6


@dataclass(frozen=True, slots=True)
class Delivery:
    """A line of a file, or a row of a table. `lands_at` (UTC) decides where it is in."""

    lands_at: datetime
    what: Any
    late: bool = False
    again: bool = False
    bad: bool = False


def by_landing_day(
    deliveries_of: Callable[[date], Iterable[Delivery]],
    landing_days: Collection[date],
    longest: int,
) -> Iterator[tuple[date, Sequence[Delivery]]]:
    """Yield what lands on each landing day, in their order; few days are in memory at once.

    `deliveries_of` gives what a day sets off; it lands on that day or up to `longest` days later.
    """
    delays = [timedelta(days=delay) for delay in range(longest + 1)]
    pending: defaultdict[date, list[Delivery]] = defaultdict(list)
    for day in sorted({landing_day - delay for landing_day in landing_days for delay in delays}):
        for delivery in deliveries_of(day):
            pending[delivery.lands_at.date()].append(delivery)
        arrived = pending.pop(day, [])
        if day in landing_days:
            yield day, arrived


def line_files(deliveries: Iterable[Delivery]) -> dict[str, bytes]:
    """Return the files of one landing day by name: UTF-8, a line each, four blocks of six hours.

    The order of the lines follows from the lines alone. A block without lines has no file.
    """
    lines: dict[str, list[str]] = {}
    for delivery in sorted(deliveries, key=lambda each: (each.lands_at, each.what)):
        name = f"part-{delivery.lands_at.hour // _HOURS_IN_A_FILE}.jsonl"
        lines.setdefault(name, []).append(delivery.what)
    return {name: ("\n".join(block) + "\n").encode() for name, block in lines.items()}


def table_file(deliveries: Iterable[Delivery], schema: Mapping[str, Any]) -> bytes:
    """Return the rows of one landing day as Parquet, sorted by their first columns."""
    rows = sorted((delivery.what for delivery in deliveries), key=repr)
    frame = pl.DataFrame(rows, schema, orient="row")
    target = io.BytesIO()
    frame.write_parquet(target, compression="zstd")
    return target.getvalue()


def midnight(day: date) -> datetime:
    """The first instant of a UTC day."""
    return datetime.combine(day, time(), UTC)


def within_the_day_of(moment: datetime, lag: timedelta) -> datetime:
    """A moment later, but not on a later day."""
    return min(moment + lag, midnight(moment.date()) + ONE_DAY - SECOND)


def delayed(moment: datetime, *, late: bool, days: int, at: int) -> datetime:
    """When something lands: at once, or where it is late on one of the days after, at any time."""
    if not late:
        return moment
    day = moment.date() + timedelta(days=1 + days % MAX_DELAY_DAYS)
    return midnight(day) + at % 86_400 * SECOND


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC, with `Z`."""
    return moment.isoformat().replace("+00:00", "Z")


def line_of(row: Mapping[str, object]) -> str:
    """A JSON line."""
    return json.dumps(row, separators=(",", ":"))
