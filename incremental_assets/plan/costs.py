"""What it would cost to merge the rows that changed into a day, and to make the day anew.

How the seconds of a batch grow with its rows was measured (`benchmarks/merge_or_rebuild.py`); how
fast this table is loaded on this machine is told by its own batches in the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Literal

from incremental_assets.lake.session import SMALL_ROWS
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.view import TableHistory

Way = Literal["merge", "rebuild"]
MOST_BATCHES = 10


@dataclass(frozen=True, slots=True)
class Model:
    """Seconds of a batch: a fixed part, and parts per row that changes and per row of its days."""

    fixed: float
    per_changed: float
    per_row: float

    def seconds(self, changed: int, rows: int) -> float:
        return self.fixed + self.per_changed * changed + self.per_row * rows


# Two cores, Java 17: `benchmarks/results/merge_or_rebuild.md`. A merge has more steps, and reads of
# the day just keys and sums; a row that changes is kept, looked up and joined on its own.
MEASURED: Mapping[Way, Model] = {
    "merge": Model(fixed=1.25, per_changed=20e-6, per_row=1.6e-6),
    "rebuild": Model(fixed=0.87, per_changed=0.0, per_row=4.1e-6),
}
# Of a day that is loaded as a small one, in a session with one task.
MEASURED_SMALL: Mapping[Way, Model] = {
    "merge": Model(fixed=1.04, per_changed=46e-6, per_row=12e-6),
    "rebuild": Model(fixed=0.65, per_changed=0.0, per_row=14e-6),
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
        return self.pace[way] * _measured(way, changed, rows)

    def cheaper(self, changed: int, rows: int) -> tuple[Way, str]:
        """The way that takes less time, and why, in words; `rows` are those that are there now."""
        merging = self.seconds("merge", changed, rows)
        rebuilding = self.seconds("rebuild", changed, rows + changed)
        way: Way = "merge" if merging <= rebuilding else "rebuild"
        return way, (
            f"merging {changed} changed rows into {rows} takes about {merging:.1f} s, making the "
            f"day anew {rebuilding:.1f} s"
        )


def _measured(way: Way, changed: int, rows: int) -> float:
    model = MEASURED_SMALL if rows <= SMALL_ROWS else MEASURED
    return model[way].seconds(changed, rows)


def _pace(way: Way, history: TableHistory) -> float | None:
    batches: dict[int, list[Entry]] = {}
    for entry in reversed(history.committed):
        if entry.mode == way and entry.seconds > 0:
            batches.setdefault(entry.batch, []).append(entry)
        if len(batches) > MOST_BATCHES:
            break
    ratios = []
    for entries in list(batches.values())[:MOST_BATCHES]:
        changed = sum(e.rows_read for e in entries) if way == "merge" else 0
        rows = sum(e.rows_counted for e in entries)
        ratios.append(entries[0].seconds / _measured(way, changed, rows))
    return median(ratios) if ratios else None
