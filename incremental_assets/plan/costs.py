"""What a batch costs, and so whether to merge changed rows into a day or to rebuild the day.

`benchmarks/merge_or_rebuild.py` measured how the seconds of a batch grow with its rows. The table's
own batches in the ledger tell how fast it is loaded on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from statistics import median
from typing import Literal

from incremental_assets.ledger.entry import Entry, Mode
from incremental_assets.ledger.table_history import TableHistory

Way = Literal["merge", "rebuild"]
MOST_BATCHES = 10
MOST_ENTRIES = 1_000  # a mode that has no batch among so many has no pace
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
# the day just keys and sums; a row that changes is cached, looked up and joined on its own. On
# small days either is some tenths of a second faster, which the pace of the table shows.
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

        A mode that it has not used yet counts as measured, or as fast as the other if that is
        faster: where the other one turns out slow it is tried, and from then on the ledger knows.
        """
        found = {way: _pace(way, history) for way in MEASURED}
        untried = min([1.0, *(pace for pace in found.values() if pace is not None)])
        return cls({way: untried if pace is None else pace for way, pace in found.items()})

    def seconds(self, way: Way, changed: int, rows: int) -> float:
        """The estimated seconds of a batch: so many rows change, of days with so many rows."""
        return self.pace[way] * MEASURED[way].seconds(changed, rows)

    def cheaper(self, changed: int, rows: int) -> tuple[Way, str]:
        """The mode that takes less time, and the reason; `rows` is what the day has now."""
        merging = self.seconds("merge", changed, rows)
        rebuilding = self.seconds("rebuild", changed, rows + changed)
        way: Way = "merge" if merging <= rebuilding else "rebuild"
        return way, (
            f"a merge of {changed} changed rows into {rows} takes about {merging:.1f} s, a rebuild "
            f"of the day {rebuilding:.1f} s"
        )


def _pace(way: Way, history: TableHistory) -> float | None:
    ratios = []
    for entries in _last_batches(way, history):
        changed = sum(e.rows_read for e in entries) if way == "merge" else 0
        rows = sum(e.rows_counted for e in entries)
        ratios.append(entries[0].seconds / MEASURED[way].seconds(changed, rows))
    return median(ratios) if ratios else None


def expected_seconds(history: TableHistory, mode: Mode, rows: int | None) -> float | None:
    """The estimated seconds of a batch with so many rows, by the last batches of its mode.

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
