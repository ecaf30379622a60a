"""Rebuilding tables in a scratch lake, by the code that loads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date

from incremental_assets.days import named, utc_today
from incremental_assets.delta.clone import clone
from incremental_assets.errors import LakeError
from incremental_assets.lakehouse import Lakehouse, TableLoadResult
from incremental_assets.ledger.entry import Window
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan import DayWork, Plan, plan_table
from incremental_assets.table import Table
from incremental_assets.verifying.scope import TableDays


def clone_bronze(
    lakehouse: Lakehouse,
    scratch: Lakehouse,
    bronze: Sequence[Table],
    view: LedgerView,
    versions: Mapping[str, int],
) -> None:
    """Clone bronze at these versions into the scratch lake, with its entries in the ledger."""
    entries = []
    for table in bronze:
        if table.name not in versions:
            continue
        name = table.name
        clone(
            f"{lakehouse.settings.lake}/{name}", versions[name], f"{scratch.settings.lake}/{name}"
        )
        # A repaired file needs no restatement where nothing was read yet.
        entries += [
            replace(entry, kind="advance", files=())
            for entry in view.table(name).committed
            if entry.kind != "rewind"
        ]
    scratch.ledger.transact(lambda _: entries)


def rebuild(scratch: Lakehouse, part: TableDays, view: LedgerView) -> list[str]:
    """Build the days of a table; a note for each of its rules that would have held a day.

    No day is held: the rows of such a day are compared like any other's.
    """
    table, history = part.table, view.table(part.table.name)
    accepted = {entry.day for entry in history.outcomes if entry.state == "accepted"}

    def planned(days: Sequence[date], scratch_view: LedgerView) -> Plan:
        now = scratch.now()
        plan = plan_table(table, days, scratch_view, scratch.settings, utc_today(now), now=now)
        return without_holds(plan, table, lambda day: _as_far_as_read(table, day, view))

    result = scratch.load_as(table, part.days, planned, "a verification")
    return would_hold(result, table, accepted)


def without_holds(
    plan: Plan, table: Table, windows: Callable[[DayWork], DayWork] = lambda day: day
) -> Plan:
    """The plan with windows by `windows`, and all rules accepted, so that none holds a day."""
    names = frozenset(table.checks())
    works = tuple(
        replace(
            work,
            days={day: replace(windows(todo), accepted=names) for day, todo in work.days.items()},
        )
        for work in plan.work
    )
    return replace(plan, work=works)


def would_hold(result: TableLoadResult, table: Table, accepted: set[date]) -> list[str]:
    """A note for each rule that would have held days of a rebuild that were not accepted.

    Raises LakeError if a day was not built all the same.
    """
    if result.failed:
        day, why = next(iter(result.failed.items()))
        raise LakeError(f"{table.name} {day} could not be rebuilt: {why.reason}.")
    blocking = {name for name, check in table.checks().items() if check.blocking}
    broken: dict[str, list[tuple[date, str]]] = {}
    for day, done in result.days.items():
        for name, found in done.checks.items():
            if not found.passed and name in blocking and day not in accepted:
                broken.setdefault(name, []).append((day, found.found))
    return [
        f"{table.name}: its rule {name} would hold {named(day for day, _ in found)} if it "
        f"was built as one batch ({found[0][1].removesuffix(' (accepted)')})"
        for name, found in broken.items()
    ]


def _as_far_as_read(table: Table, todo: DayWork, view: LedgerView) -> DayWork:
    """The day with windows of bronze that end at the table's watermark."""
    if not table.is_typed:
        return todo
    history = view.table(table.name)
    windows = tuple(
        Window(w.upstream, w.low, history.watermark(w.upstream, todo.day)) for w in todo.windows
    )
    return replace(todo, windows=windows)
