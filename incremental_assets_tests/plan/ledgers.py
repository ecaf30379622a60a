"""Tables, and ledgers written out by hand, for the tests of planning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime

from incremental_assets.ledger.entry import Entry, Kind, Mode, State, Touched, Window
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan import (
    Plan,
    plan_table,
    stale_days,
)
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import Instant, Text
from incremental_assets.settings import Settings
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.table import AsOf, SameDay, Table
from incremental_assets.writes import Append, Merge, ReplaceDay

EVENTS = Table("bronze/events", "", reads=(LandedFiles("events"),), write=Append(), day="at")
USERS = Table(
    "silver/users",
    "",
    reads=(SameDay(EVENTS),),
    key=("user_id",),
    schema=Contract(user_id=Text(), at=Instant()),
    write=Merge(),
)
SALES = Table(
    "silver/sales",
    "",
    reads=(SameDay(EVENTS),),
    key=("id",),
    day="at",
    schema=Contract(id=Text(), user_id=Text(), at=Instant()),
    write=Merge(),
)
MART = Table(
    "gold/mart",
    "",
    reads=(SameDay(SALES), AsOf(USERS, key="user_id", at="at", valid_from="at")),
    write=ReplaceDay(),
    transform=lambda sales, _users: sales,
)


def jan(day: int) -> date:
    return date(2017, 1, day)


def did(
    table: Table,
    batch: int,
    day: int,
    *,
    touched: Sequence[int] = (),
    read: Mapping[str, int] | None = None,
    state: State = "committed",
    kind: Kind = "advance",
    mode: Mode = "merge",
    affects: Sequence[int] | None = (),
) -> Entry:
    """A batch of one day: what it wrote to, and how far it read each upstream."""
    return Entry(
        table=table.name,
        batch=batch,
        day=jan(day),
        state=state,
        kind=kind,
        mode=mode,
        detector="batches",
        recorded_at=datetime(2017, 1, 31, tzinfo=UTC),
        windows=tuple(Window(name, 0, high) for name, high in (read or {}).items()),
        touched=tuple(Touched(jan(d), 1) for d in touched),
        affects=None if affects is None else tuple(jan(d) for d in affects),
        held_by="quarantined_share: 3 of 5" if state == "held" else "",
    )


def ledger(*entries: Entry) -> LedgerView:
    names = {entry.table for entry in entries}
    return LedgerView(
        1, {n: TableHistory(n, tuple(e for e in entries if e.table == n)) for n in names}
    )


EMPTY = ledger()


def by_mode(plan: Plan) -> dict[tuple[Mode, Kind], list[int]]:
    return {(work.mode, work.kind): [day.day for day in work.days] for work in plan.work}


def planned(table: Table, days: Sequence[int], view: LedgerView, settings: Settings) -> Plan:
    return plan_table(table, [jan(day) for day in days], view, settings, jan(31))


def stale(table: Table, view: LedgerView) -> dict[int, str]:
    return {day.day: why for day, why in stale_days(table, view, jan(1), jan(31)).items()}
