"""Which rows of a bronze table a sequence without a day may read again.

What a batch reads above the number that was read so far, and in gaps, is new: the table has no such
number. Read again are numbers inside the lookback, those above a watermark that was lowered, and
rows without a number. The ledger knows which batches may hold them; each row has its batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile

from incremental_assets.changes.position import state_of
from incremental_assets.changes.progress import progress_from
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.table_history import TableHistory

# In a position: the first batch with a row without a number; None where there is none.
WITHOUT_CURSOR = "without_cursor"


def first_batch_read_again(history: TableHistory, lookback: int) -> int | None:
    """The first batch whose rows the next one may read again; None where it reads none again.

    Bounded by the batches that loaded numbers inside the lookback. After a rewind, also the
    numbers of a gap may be in the table, so it is bounded by the batches above the lowest gap.
    """
    if history.last is None:
        return None
    progress = progress_from(state_of(history.last), None)
    if progress.high is None:
        return 1
    is_rewound = history.was_rewound
    low = progress.high - lookback
    if is_rewound:
        low = min(low, *(first - 1 for first, _ in progress.gaps), progress.high)
    # Without a rewind numbers only grow, so a batch before one that stays below does so, too.
    take: Callable[[Callable[[Entry], bool], Iterable[Entry]], Iterable[Entry]] = (
        filter if is_rewound else takewhile
    )
    loads = _loads(history)
    found = [entry.batch for entry in take(lambda entry: _has_number_above(entry, low), loads)]
    since = _without_cursor(history)
    return min([*found, *([since] if since is not None else [])], default=None)


def without_cursor_since(history: TableHistory, batch: int, rows: int) -> int | None:
    """The first batch with rows without a number, where this `batch` has found so many."""
    since = _without_cursor(history)
    return batch if since is None and rows else since


def _loads(history: TableHistory) -> Iterator[Entry]:
    """The published batches, newest first, without manual decisions."""
    return (entry for entry in history.newest_first() if entry.kind != "rewind")


def _without_cursor(history: TableHistory) -> int | None:
    """The batch that the newest position names; where a position names none, any batch may."""
    last = next(_loads(history), None)
    since: int | None = None if last is None else state_of(last).get(WITHOUT_CURSOR, 1)
    return since


def _has_number_above(entry: Entry, low: int) -> bool:
    state = state_of(entry)
    return "top" not in state or (state["top"] is not None and state["top"] > low)
