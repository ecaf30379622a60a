"""The note of a target's commit, from which settling reads the outcome of the batch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import Any

from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.engine.target import TargetTable
from incremental_assets.ledger.consistency import CLAIM_NOTE
from incremental_assets.ledger.entry import Entry, Touched

_METRICS = (
    "rows_read",
    "rows_inserted",
    "rows_updated",
    "rows_deleted",
    "rows_quarantined",
)


def commit_note(done: Entry, touched: Sequence[Touched]) -> str:
    """The commit's note, from which settling reads the outcome of the batch."""
    note: Mapping[str, Any] = {
        "batch": done.batch,
        "metrics": {name: getattr(done, name) for name in _METRICS},
        "touched": {str(each.day): each.rows for each in touched},
        **({CLAIM_NOTE: done.token} if done.token else {}),
    }
    return json.dumps(note, separators=(",", ":"))


def touched_days(target: TargetTable, write: StagedWrite) -> tuple[Touched, ...]:
    """The days that were written to, with their rows, where the target is partitioned by one."""
    if len(target.partition_by) != 1:
        return ()
    replaced = write.replaced_by[1] if write.replaced_by else ()
    days = {day: 0 for day in replaced if isinstance(day, date)}
    for file in write.staged.files:
        with suppress(ValueError):  # no day, or no partition
            day = date.fromisoformat(file.partition.get(target.partition_by[0]) or "")
            days[day] = days.get(day, 0) + file.rows
    return tuple(Touched(day, rows) for day, rows in sorted(days.items()))
