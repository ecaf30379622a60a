"""Building tables anew in a scratch lake, by the very code that loads them."""

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
from incremental_assets.verifying.scope import Part


def put_bronze(
    house: Lakehouse,
    scratch: Lakehouse,
    bronze: Sequence[Table],
    view: LedgerView,
    versions: Mapping[str, int],
) -> None:
    """Let the scratch lake stand on bronze as it is at these versions, with what is known of it."""
    entries = []
    for table in bronze:
        if table.name not in versions:
            continue
        name = table.name
        clone(f"{house.settings.lake}/{name}", versions[name], f"{scratch.settings.lake}/{name}")
        # That a file was repaired is no news to who has read nothing yet.
        entries += [
            replace(entry, kind="advance", files=())
            for entry in view.table(name).committed
            if entry.kind != "rewind"
        ]
    scratch.ledger.transact(lambda _: entries)


def rebuild(scratch: Lakehouse, part: Part, view: LedgerView) -> list[str]:
    """Build the days of a table, and tell which of its rules would have held a day.

    Nothing is held: what the gate would say of a day that was published is told, and its rows are
    compared like any other's.
    """
    table, history = part.table, view.table(part.table.name)
    accepted = {entry.day for entry in history.outcomes if entry.state == "accepted"}

    def planned(days: Sequence[date], scratch_view: LedgerView) -> Plan:
        now = scratch.now()
        plan = plan_table(table, days, scratch_view, scratch.settings, utc_today(now), now=now)
        return all_let_through(plan, table, lambda day: _as_far_as_read(table, day, view))

    result = scratch.load_as(table, part.days, planned, "a verification")
    return would_hold(result, table, accepted)


def all_let_through(
    plan: Plan, table: Table, windows: Callable[[DayWork], DayWork] = lambda day: day
) -> Plan:
    """The plan with the days as `windows` makes them, and no rule that holds one of them."""
    names = frozenset(table.checks())
    works = tuple(
        replace(
            work,
            days={day: replace(windows(todo), waived=names) for day, todo in work.days.items()},
        )
        for work in plan.work
    )
    return replace(plan, work=works)


def would_hold(result: TableLoadResult, table: Table, accepted: set[date]) -> list[str]:
    """What would have held days of a rebuild, but for those that somebody accepted.

    Raises LakeError if a day was not built all the same.
    """
    if result.failed:
        day, why = next(iter(result.failed.items()))
        raise LakeError(f"{table.name} {day} could not be built anew: {why.reason}.")
    blocking = {name for name, check in table.checks().items() if check.blocking}
    broken: dict[str, list[tuple[date, str]]] = {}
    for day, done in result.days.items():
        for name, found in done.checks.items():
            if not found.passed and name in blocking and day not in accepted:
                broken.setdefault(name, []).append((day, found.found))
    return [
        f"{table.name}: its rule {name} would hold {named(day for day, _ in found)} if it "
        f"was built in one go ({found[0][1].removesuffix(' (accepted)')})"
        for name, found in broken.items()
    ]


def _as_far_as_read(table: Table, todo: DayWork, view: LedgerView) -> DayWork:
    """The day's windows of bronze, which end where the table has read to."""
    if not table.is_typed:
        return todo
    history = view.table(table.name)
    windows = tuple(
        Window(w.upstream, w.low, history.watermark(w.upstream, todo.day)) for w in todo.windows
    )
    return replace(todo, windows=windows)
