"""Which days the messages of a topic are of, by ranges of offsets: what was read, and what not yet.

A message is of the UTC day of its timestamp, wherever it lies in its partition: one that is late
lies among those of a later day. So that no message is looked at twice, a table keeps, with how far
it has looked, the ranges in which days have messages that it has not loaded yet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

NextOffsets = Mapping[int, int]
"""Per partition: the offset of the next message."""
Ranges = Mapping[int, tuple[int, int]]
"""Per partition: from the first offset to the one behind the last."""


@dataclass(frozen=True, slots=True)
class DayMessages:
    """The messages of a day: how many, their bytes, and the ranges in which they lie.

    Among them lie messages of other days, but none of this day that was loaded.
    """

    rows: int
    size: int
    ranges: Ranges

    @property
    def fingerprint(self) -> str:
        """Text that changes with the messages."""
        return json.dumps([self.rows, {str(p): list(r) for p, r in sorted(self.ranges.items())}])

    def with_more(self, more: DayMessages) -> DayMessages:
        """These messages, and later ones."""
        ranges = dict(self.ranges)
        for partition, (first, end) in more.ranges.items():
            low, high = ranges.get(partition, (first, end))
            ranges[partition] = min(low, first), max(high, end)
        return DayMessages(self.rows + more.rows, self.size + more.size, ranges)


MessagesByDay = Mapping[date | None, DayMessages]
"""Messages by the day of their timestamp; None: those without one that a calendar has."""


def added_up(*parts: MessagesByDay) -> dict[date | None, DayMessages]:
    """The messages of all parts, of which the later ones lie behind the earlier ones."""
    found: dict[date | None, DayMessages] = {}
    for part in parts:
        for day, messages in part.items():
            found[day] = found[day].with_more(messages) if day in found else messages
    return found


def loading_day(day: date | None, today: date) -> date:
    """The day whose load takes messages of a day: today's takes those without one, or to come."""
    return today if day is None or day > today else day


def by_loading_day(messages: MessagesByDay, first: date, today: date) -> dict[date, DayMessages]:
    """What there is to load of each day, from the first one on."""
    found: dict[date, DayMessages] = {}
    for day, some in messages.items():
        load = loading_day(day, today)
        if load >= first:
            found[load] = found[load].with_more(some) if load in found else some
    return found


def as_json(messages: MessagesByDay) -> Mapping[str, Any]:
    """For the ledger."""
    return {
        "" if day is None else str(day): [
            some.rows,
            some.size,
            {str(partition): list(ends) for partition, ends in some.ranges.items()},
        ]
        for day, some in messages.items()
    }


def from_json(found: Mapping[str, Any]) -> dict[date | None, DayMessages]:
    """As the ledger has it."""
    return {
        date.fromisoformat(day) if day else None: DayMessages(
            rows, size, {int(partition): (first, end) for partition, (first, end) in ranges.items()}
        )
        for day, (rows, size, ranges) in found.items()
    }


def lost_ranges(known: NextOffsets, begin: NextOffsets) -> dict[int, tuple[int, int]]:
    """The offsets of each partition that nobody has looked at, and that are gone by now.

    `known` is up to where all was looked at; a partition that is not there was added since.
    """
    return {p: (known.get(p, 0), low) for p, low in begin.items() if low > known.get(p, 0)}


def in_words(ranges: Ranges, most: int = 5) -> str:
    """Ranges of offsets, such as "partition 0: 12 … 39"."""
    texts = [f"partition {p}: {low} … {end - 1}" for p, (low, end) in sorted(ranges.items())]
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
