"""How long a batch will take, by the last batches of its table."""

from __future__ import annotations

from itertools import islice
from statistics import median

from incremental_assets.ledger.entry import Entry, Mode
from incremental_assets.ledger.table_history import TableHistory

MOST_BATCHES = 10
MOST_ENTRIES = 1_000  # a mode that has no batch among so many has no pace
_APART_ROWS = 1_000  # batches closer than this differ by chance more than by their size


def expected_seconds(history: TableHistory, mode: Mode, rows: int | None) -> float | None:
    """The estimated seconds of a batch with so many rows, by the last batches of its mode.

    The median of what they took and, where their sizes differ, the median of their seconds per
    row (Theil and Sen's line). None where there was none.
    """
    batches = _last_batches(mode, history)
    points = [(sum(e.rows_read for e in some), some[0].seconds) for some in batches]
    if not points:
        return None
    slopes = [
        (more_seconds - fewer_seconds) / (more - fewer)
        for fewer, fewer_seconds in points
        for more, more_seconds in points
        if more - fewer >= _APART_ROWS and more >= 2 * fewer
    ]
    if rows is None or not slopes:
        return median(seconds for _, seconds in points)
    slope = max(0.0, median(slopes))
    fixed = median(seconds - slope * read for read, seconds in points)
    least = min(seconds for _, seconds in points)
    return max(fixed + slope * rows, least / 2)


def _last_batches(mode: Mode, history: TableHistory) -> list[list[Entry]]:
    """The entries of the last published batches of a mode, newest first."""
    found: dict[int, list[Entry]] = {}
    for entry in islice(history.newest_first(), MOST_ENTRIES):
        if entry.mode == mode and entry.seconds > 0:
            found.setdefault(entry.batch, []).append(entry)
        if len(found) > MOST_BATCHES:
            break
    return list(found.values())[:MOST_BATCHES]
