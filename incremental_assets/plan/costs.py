"""What a batch costs, and so whether to merge changed rows into a day or to make the day anew.

How the seconds of a batch grow with its rows was measured (`benchmarks/merge_or_rebuild.py`); how
fast this table is loaded on this machine is told by its own batches in the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from statistics import median
from typing import Literal

from incremental_assets.ledger.entry import Entry, Mode
from incremental_assets.ledger.view import TableHistory

Way = Literal["merge", "rebuild"]
MOST_BATCHES = 10
MOST_ENTRIES = 1_000  # of a way that was not gone for longer than that, nothing is known
_APART_ROWS = 1_000  # batches closer than this differ by chance more than by their size


@dataclass(frozen=True, slots=True)
class Model:
    """Seconds of a batch: a fixed part, and parts per row that changes and per row of its days."""

    fixed: float
    per_changed: float
    per_row: float

    def seconds(self, changed: int, rows: int) -> float:
        return self.fixed + self.per_changed * changed + self.per_row * rows


# Two cores, Java 17: `benchmarks/results/merge_or_rebuild.md`. A merge has more steps, and reads of
# the day just keys and sums; a row that changes is kept, looked up and joined on its own. Of small
# days either way is some tenths of a second faster, which the pace of their table tells.
MEASURED: Mapping[Way, Model] = {
    "merge": Model(fixed=1.25, per_changed=20e-6, per_row=1.6e-6),
    "rebuild": Model(fixed=0.87, per_changed=0.0, per_row=4.1e-6),
}


@dataclass(frozen=True, slots=True)
class Costs:
    """The model, with the pace of a table: its seconds as a multiple of the measured ones."""

    pace: Mapping[Way, float]

    @classmethod
    def of(cls, history: TableHistory) -> Costs:
        """The pace of the table's last batches.

        A way that it has not gone yet counts as measured, or as fast as the other if that is
        faster: where the other one turns out slow it is tried, and the ledger knows from then on.
        """
        found = {way: _pace(way, history) for way in MEASURED}
        untried = min([1.0, *(pace for pace in found.values() if pace is not None)])
        return cls({way: untried if pace is None else pace for way, pace in found.items()})

    def seconds(self, way: Way, changed: int, rows: int) -> float:
        """About how long a batch takes in which so many rows change, of days with so many rows."""
        return self.pace[way] * MEASURED[way].seconds(changed, rows)

    def cheaper(self, changed: int, rows: int) -> tuple[Way, str]:
        """The way that takes less time, and why, in words; `rows` are those that are there now."""
        merging = self.seconds("merge", changed, rows)
        rebuilding = self.seconds("rebuild", changed, rows + changed)
        way: Way = "merge" if merging <= rebuilding else "rebuild"
        return way, (
            f"merging {changed} changed rows into {rows} takes about {merging:.1f} s, making the "
            f"day anew {rebuilding:.1f} s"
        )


def _pace(way: Way, history: TableHistory) -> float | None:
    ratios = []
    for entries in _last_batches(way, history):
        changed = sum(e.rows_read for e in entries) if way == "merge" else 0
        rows = sum(e.rows_counted for e in entries)
        ratios.append(entries[0].seconds / MEASURED[way].seconds(changed, rows))
    return median(ratios) if ratios else None


def expected_seconds(history: TableHistory, mode: Mode, rows: int | None) -> float | None:
    """About how long a batch of a table takes that reads so many rows, by its last ones of a mode.

    The median of what they took; where their sizes tell it, with the median of their seconds per
    row (Theil and Sen's line), else with the measured ones. None where there was none.
    """
    batches = _last_batches(mode, history)
    points = [(sum(e.rows_read for e in some), some[0].seconds) for some in batches]
    if not points:
        return None
    if rows is None:
        return median(seconds for _, seconds in points)
    slopes = [
        (more_seconds - fewer_seconds) / (more - fewer)
        for fewer, fewer_seconds in points
        for more, more_seconds in points
        if more - fewer >= _APART_ROWS and more >= 2 * fewer
    ]
    measured = MEASURED["merge"].per_changed if mode == "merge" else MEASURED["rebuild"].per_row
    slope = max(0.0, median(slopes)) if slopes else measured
    fixed = median(seconds - slope * read for read, seconds in points)
    least = min(seconds for _, seconds in points)
    return max(fixed + slope * rows, least / 2)


def _last_batches(mode: str, history: TableHistory) -> list[list[Entry]]:
    """The entries of the last published batches of a mode, newest first."""
    found: dict[int, list[Entry]] = {}
    for entry in islice(history.newest_first(), MOST_ENTRIES):
        if entry.mode == mode and entry.seconds > 0:
            found.setdefault(entry.batch, []).append(entry)
        if len(found) > MOST_BATCHES:
            break
    return list(found.values())[:MOST_BATCHES]
