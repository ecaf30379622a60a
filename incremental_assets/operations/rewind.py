"""Lowering a watermark: what was loaded since is loaded again, once; the old entries stay."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from incremental_assets.changes.position import state_of
from incremental_assets.days import DayRange
from incremental_assets.errors import ConflictError, DayError, DefinitionError, WatermarkError
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.ledger.entry import Entry, FileEntry, Window
from incremental_assets.ledger.lock import table_lock
from incremental_assets.ledger.settle import record_decision
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.settings import user_name
from incremental_assets.table import Table

# The fingerprints of the source that a detector keeps: with them it would count as unchanged.
_FINGERPRINTS = ("source", "seen", "listed")


@dataclass(frozen=True)
class Rewound:
    """What a rewind did: the days whose watermark it lowered, to what it was after batch `to`."""

    table: str
    to: int
    days: tuple[date, ...]


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


def to_rewind(
    table: Table, history: TableHistory, to: int | datetime, days: DayRange | None, now: datetime
) -> Rewound:
    """What a rewind would do. Changes nothing.

    `to` is a batch of the table (0: before the first), or a moment: the last batch that was
    recorded by then. Raises WatermarkError where there is nothing to rewind, and DefinitionError
    for a source that has nothing to read again.
    """
    if table.why_not_again:
        raise DefinitionError(f"{table.name}: {table.why_not_again}. What is loaded stays.")
    number = _batch_at(table, history, to, now) if isinstance(to, datetime) else to
    last = max((entry.batch for entry in history.loads), default=0)
    if number < 0 or number > last:
        raise WatermarkError(
            f"{table.name} has no batch {number} yet: its last is {last}. A watermark is only ever "
            "lowered by hand; to load what is new, run the table."
        )
    later = [day for day, entry in history.last_committed.items() if entry.batch > number]
    asked = sorted(day for day in later if days is None or day in days)
    if not asked:
        of = f" of {days}" if days else ""
        raise WatermarkError(
            f"{table.name}: no day{of} was loaded after batch {number}, so there is nothing to "
            f"rewind. `incremental-assets watermarks history {table.name}` shows its batches."
        )
    return Rewound(table.name, number, tuple(asked))


def rewind(
    lakehouse: Lakehouse,
    table: Table,
    to: int | datetime,
    reason: str,
    days: DayRange | None = None,
) -> Rewound:
    """Record that a table is to load again what its batches above `to` loaded.

    The next load of these days does it: files are read again and their rows replaced, rows of a
    stored source are read again from the lower watermark (one that is loaded is not added twice), a
    silver or gold day is rebuilt. No row is removed before that. Raises as `to_rewind`, and
    ConflictError for a table with an unfinished batch.
    """
    if not reason.strip():
        raise DefinitionError("A rewind needs a reason, which stays in the ledger: give one.")
    with table_lock(lakehouse.settings.lake, table.name, "a rewind", lakehouse.log):
        history, now = lakehouse.ledger.view().table(table.name), lakehouse.now()
        _refuse_pending(history)
        found = to_rewind(table, history, to, days, now)
        entries = rewind_entries(table, history, found, reason.strip(), now)
        record_decision(lakehouse.ledger, table.name, history.last_batch, entries, "rewound")
    return found


def _batch_at(table: Table, history: TableHistory, at: datetime, now: datetime) -> int:
    if at > now:
        raise WatermarkError(
            f"{table.name}: {at.isoformat()} is in the future. Name a batch, or a moment at "
            "which the table was right."
        )
    return max((e.batch for e in history.loads if e.recorded_at <= at), default=0)


def _refuse_pending(history: TableHistory) -> None:
    if history.unsettled:
        claim = history.unsettled[0]
        raise ConflictError(
            f"{history.table}: batch {claim.batch}, begun {claim.recorded_at:%Y-%m-%d %H:%M} UTC "
            f"by {claim.who}, has no outcome yet: its run is in progress elsewhere, or "
            "died. Nothing was rewound; "
            f"`incremental-assets run {history.table}` gives it one, then try again."
        )


def rewind_entries(
    table: Table, history: TableHistory, found: Rewound, reason: str, now: datetime
) -> list[Entry]:
    """The entries of a rewind: per day the former watermark, and the files to be loaded again."""
    remaining = [entry for entry in history.committed if entry.batch <= found.to]
    by_day = {entry.day: entry for entry in remaining}
    days, files = found.days, _files_since(history, found)
    if table.source is not None and table.landing_column is None:  # all days have one watermark
        days = found.days[-1:]
        by_day = dict.fromkeys(days, remaining[-1]) if remaining else {}
        files = dict.fromkeys(days, tuple(file for some in files.values() for file in some))
    return [
        Entry(
            table=table.name,
            batch=history.last_batch + 1,
            day=day,
            state="committed",
            kind="rewind",
            mode="replace",
            detector=history.last_committed[day].detector,
            recorded_at=now,
            windows=_windows(history.last_committed[day], before),
            files=files.get(day, ()) if table.layer == "bronze" else (),
            affects=(),
            low=history.last_committed[day].high,
            high=before.high if before else "",
            position=_position(table, history.last_committed[day], before, remaining),
            who=user_name(),
            why=reason,
        )
        for day in days
        for before in [by_day.get(day)]
    ]


def _windows(last: Entry, before: Entry | None) -> tuple[Window, ...]:
    highs = {w.upstream: w.high for w in before.windows} if before else {}
    return tuple(replace(w, low=w.high, high=highs.get(w.upstream, 0)) for w in last.windows)


def _files_since(history: TableHistory, found: Rewound) -> Mapping[date, tuple[FileEntry, ...]]:
    """Per day the files that the batches above it loaded, as they were last loaded."""
    since: dict[date, dict[str, FileEntry]] = {}
    for entry in history.committed:
        if entry.batch > found.to and entry.day in found.days:
            since.setdefault(entry.day, {}).update({f.path: f for f in entry.files})
    return {day: tuple(files.values()) for day, files in since.items()}


def _position(table: Table, last: Entry, before: Entry | None, remaining: Sequence[Entry]) -> str:
    """The position that the detector continues from, without the fingerprints of the source."""
    state = state_of(before)
    if table.changes.state_of_source and remaining:  # its gaps are the whole source's
        state = state_of(remaining[-1])
    if table.changes.compares_days:  # the table still holds the days that others are compared with
        state = state_of(last)
    own = {name: value for name, value in state.items() if name not in _FINGERPRINTS}
    return json.dumps(own) if own else ""
