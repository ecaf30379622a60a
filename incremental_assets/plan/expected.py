"""The ledger entries that a planned batch would write, as far as they can be known before it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from itertools import islice

from incremental_assets.ledger.entry import WITHOUT_DAYS, Entry, Touched
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.accepted import same_input
from incremental_assets.plan.derived import changed_rows, rows_before
from incremental_assets.plan.stored import last_state
from incremental_assets.plan.work import DayWork, Work, file_entries
from incremental_assets.sources.row_fingerprints import rows_in
from incremental_assets.table import Table

LAST_ENTRIES = 100


@dataclass(frozen=True, slots=True)
class ExpectedSize:
    """How many rows a day's work reads and writes; None where unknown.

    `is_estimate` is whether the numbers are estimated and not counted.
    """

    read: int | None
    written: int | None
    is_estimate: bool


@dataclass(frozen=True, slots=True)
class Expected:
    """A day of a batch: what there is to do, how much it is, and the entry that it would leave."""

    todo: DayWork
    size: ExpectedSize
    entry: Entry


def expected_batch(
    table: Table, work: Work, view: LedgerView, known: LedgerView, now: datetime
) -> list[Expected]:
    """The outcomes of the next batch, if its gate passes what it has not judged yet.

    `known` is the ledger as it is, `view` the same with the batches that are expected before this
    one. A day whose input was judged and held is held again.
    """
    number = view.table(table.name).last_batch + 1
    sizes = {
        day: _landed(table, work, todo, known)
        if table.layer == "bronze"
        else _derived(table, work, todo, view, known)
        for day, todo in sorted(work.days.items())
    }
    return [
        Expected(work.days[day], size, _entry(table, work, day, number, size, view, now))
        for day, size in sizes.items()
    ]


def _entry(
    table: Table,
    work: Work,
    day: date,
    number: int,
    size: ExpectedSize,
    view: LedgerView,
    now: datetime,
) -> Entry:
    todo, history = work.days[day], view.table(table.name)
    rows = size.written or 0
    there = rows_before(table, day, view) if work.mode == "merge" and not table.is_typed else 0
    entry = Entry(
        table=table.name,
        batch=number,
        day=day,
        state="committed",
        kind=work.kind,
        mode=work.mode,
        detector="",
        recorded_at=now,
        windows=todo.windows,
        files=file_entries(todo.files),
        touched=_touched(table, work, day, rows, history) if size.written != 0 else (),
        affects=(),
        rows_read=size.read or 0,
        rows_inserted=rows,
        rows_counted=max(rows, there),
        position=_position(table, todo),
        code_version=table.code_version,
    )
    held = history.judged(day)
    if held is None or not same_input(held, todo, table, view):
        return entry
    return replace(entry, state="held", held_by=held.held_by, touched=())


def _touched(
    table: Table, work: Work, day: date, rows: int, history: TableHistory
) -> tuple[Touched, ...]:
    own = Touched(day, rows)
    if table.changes.compares_days and work.mode == "rebuild":
        # The changes of the next snapshot are computed again.
        later = min((d for d in history.last_committed if d > day), default=None)
        return (own,) if later is None else (own, Touched(later, 0))
    return (own,)


def _position(table: Table, todo: DayWork) -> str:
    if todo.source is None:
        return ""
    whole = {WITHOUT_DAYS: True} if table.reads_whole_source else {}
    read = {"source": todo.source.fingerprint, "seen": todo.seen, "listed": todo.listed}
    return json.dumps(read | whole)


def _landed(table: Table, work: Work, todo: DayWork, known: LedgerView) -> ExpectedSize:
    """Of files by the rows per byte of the table's last files; of a table those it counts."""
    history = known.table(table.name)
    if todo.source is not None and todo.source.days is not None:
        return ExpectedSize(todo.rows, todo.rows, is_estimate=False)
    if todo.source is not None and not todo.files:
        before = last_state(table, history, todo.day).get("seen", "")
        if not todo.seen and not before:
            return ExpectedSize(None, None if table.landing_column is None else 0, is_estimate=True)
        more = rows_in(todo.seen) - rows_in(before)
        # As many rows as before, but others: some were replaced. Fewer: some went to other days.
        rows = more or None if more >= 0 else 0
        return ExpectedSize(rows, rows, is_estimate=True)
    size = sum(file.size for file in todo.files)
    last = [e for e in islice(history.newest_first(), LAST_ENTRIES) if e.bytes > 0]
    total = sum(entry.bytes for entry in last)
    if not size:
        return ExpectedSize(0, 0 if work.mode == "append" else None, is_estimate=False)
    if not total:
        return ExpectedSize(None, None, is_estimate=True)
    read = round(size * sum(e.rows_read for e in last) / total)
    written = round(size * sum(t.rows for e in last for t in e.touched) / total)
    return ExpectedSize(read, max(written, 1), is_estimate=True)


def _derived(
    table: Table, work: Work, todo: DayWork, view: LedgerView, known: LedgerView
) -> ExpectedSize:
    facts = todo.windows[0]
    upstream = view.table(facts.upstream)
    whole = table.is_typed and work.mode == "rebuild"
    read = {each.table.name for each in table.same_days} if table.is_typed else {facts.upstream}
    new: list[Entry] = []
    is_estimate = False
    for window in (each for each in todo.windows if each.upstream in read):
        changes = view.table(window.upstream).changes(todo.day, 0 if whole else window.low)
        is_estimate |= any(e.batch > known.table(window.upstream).high for e in changes)
        new.extend(changes)
    if table.write.recomputes_keys:
        return _size(changed_rows(todo, view), is_estimate=True)
    if table.is_typed:
        restated = any(entry.replaces_rows for entry in new)
        return _size(_rows(new, todo.day), is_estimate=is_estimate or restated)
    if work.mode == "merge":
        return _size(changed_rows(todo, view), is_estimate=is_estimate)
    since = list(upstream.since_rebuilt(todo.day))
    own = {e.batch for e in since if len(e.touched) == 1}
    is_estimate |= {e.batch for e in upstream.changes(todo.day, min(own, default=1) - 1)} != own
    return _size(sum(e.rows_inserted - e.rows_deleted for e in since), is_estimate=is_estimate)


def _size(rows: int, *, is_estimate: bool) -> ExpectedSize:
    return (
        ExpectedSize(rows, rows, is_estimate=is_estimate)
        if rows > 0
        else ExpectedSize(None, None, is_estimate=True)
    )


def _rows(entries: Iterable[Entry] | Sequence[Entry], day: date) -> int:
    return sum(t.rows for entry in entries for t in entry.touched if t.day == day)
