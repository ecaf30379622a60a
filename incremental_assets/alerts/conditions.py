"""The conditions of a lake that are alerts: days that are held or stale, bad or late rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal

from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.hold_reason import rules_in
from incremental_assets.ledger.shares import rows_in_shares
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan import stale_days
from incremental_assets.plan.derived import unread
from incremental_assets.plurals import are, counted
from incremental_assets.quality.rule import APART
from incremental_assets.table import Table

ConditionKind = Literal["held", "stale", "quarantined", "late"]
# Of fewer rows every share is large.
MIN_ROWS = 5


@dataclass(frozen=True, slots=True)
class AlertThresholds:
    """When an alert is due: how long a day is stale, and shares (0 to 1) of its rows."""

    stale_after: timedelta
    quarantined: float
    late: float


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of one day of a table.

    A condition with another `fingerprint` is notified again. `found` describes it by counts and
    names of rules, never by values of rows. `since` is when it began, where it is one of time;
    `value` is a share, else 0.
    """

    kind: ConditionKind
    table: str
    day: date
    fingerprint: str
    found: str
    value: float = 0.0
    since: datetime | None = None


def conditions(
    tables: Sequence[Table], view: LedgerView, thresholds: AlertThresholds, start: date, today: date
) -> list[Condition]:
    """All conditions now, by the ledger alone; days that are stale from their first hour."""
    return [
        found
        for table in tables
        for part in (
            _held(table, view.table(table.name)),
            _stale(table, view, start, today),
            _shares(table, view.table(table.name), thresholds),
        )
        for found in part
    ]


def due(found: Sequence[Condition], thresholds: AlertThresholds, now: datetime) -> list[Condition]:
    """The conditions to notify: a stale day only once it has been stale for long enough."""
    return [c for c in found if c.since is None or now - c.since >= thresholds.stale_after]


def _held(table: Table, history: TableHistory) -> Iterator[Condition]:
    for day, entry in history.held.items():
        if day in history.accepted:
            continue
        rules = rules_in(entry.held_by)
        failed = [name for name in table.checks() if name in rules]
        found = (
            f"held since batch {entry.batch} by {', '.join(failed) or 'its gate'}; "
            f"{entry.rows_quarantined:,} of {counted(entry.rows_read, 'row')} "
            f"{are(entry.rows_quarantined)} quarantined"
        )
        yield Condition("held", table.name, day, str(entry.batch), found)


def _stale(table: Table, view: LedgerView, start: date, today: date) -> Iterator[Condition]:
    rewound = view.table(table.name).rewound
    for day in stale_days(table, view, start, today) if table.upstreams else ():
        unread_batches = [
            entry for read in table.upstreams for entry in unread(table, read, day, view)
        ]
        unread_batches += [rewound[day]] if day in rewound else []
        if unread_batches:
            first = min(entry.recorded_at for entry in unread_batches)
            found = f"waits since {first:%Y-%m-%d %H:%M} UTC to be rebuilt"
            yield Condition("stale", table.name, day, "", found, since=first)


def _shares(
    table: Table, history: TableHistory, thresholds: AlertThresholds
) -> Iterator[Condition]:
    for day, entries in _since_rebuilt(history).items():
        fingerprint = str(entries[-1].batch)
        rows, bad = rows_in_shares(entries, APART)
        if bad >= MIN_ROWS and bad > thresholds.quarantined * rows:
            found = _share(f"{are(bad)} in quarantine", bad, rows, thresholds.quarantined)
            yield Condition("quarantined", table.name, day, fingerprint, found, bad / max(rows, 1))
        loads = [e for e in entries if e.state == "committed" and e.kind != "replay"]
        read = sum(e.rows_read for e in loads)
        late = sum(e.rows_late for e in loads)
        if late >= MIN_ROWS and late > thresholds.late * read:
            found = _share("came late", late, read, thresholds.late)
            yield Condition("late", table.name, day, fingerprint, found, late / max(read, 1))


def _since_rebuilt(history: TableHistory) -> dict[date, list[Entry]]:
    """Per day: what was published, or dropped from quarantine, since its last rebuild."""
    found: dict[date, list[Entry]] = {}
    for entry in history.outcomes:
        if entry.kind == "rewind":
            continue  # it is the load after it that changes something
        if entry.state == "committed" and entry.mode == "rebuild":
            found[entry.day] = [entry]
        elif entry.state == "committed" or (entry.state == "dropped" and entry.day in found):
            found.setdefault(entry.day, []).append(entry)
    return found


def _share(what: str, some: int, rows: int, limit: float) -> str:
    of = f"{some:,} of {counted(rows, 'row')} ({some / max(rows, 1):.1%})"
    return f"{of} {what}; the limit is {limit:.0%}"
