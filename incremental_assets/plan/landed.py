"""What landed files have to offer: which landing days hold files that are new or changed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import partial

from incremental_assets.changes.by_snapshot import SnapshotDiff
from incremental_assets.ledger.view import LedgerView, TableHistory
from incremental_assets.plan.work import DayWork, Plan, Work
from incremental_assets.settings import Settings
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.source_file import with_content_tag
from incremental_assets.table import Table


def plan_landed(
    table: Table, feed: LandedFiles, days: Sequence[date], view: LedgerView, settings: Settings
) -> Plan:
    """The landing days of a feed that hold something new."""
    history = view.table(table.name)
    fresh: dict[date, DayWork] = {}
    repaired: dict[date, DayWork] = {}
    idle: list[date] = []
    for day in days:
        listed = feed.files(settings.landing, day)
        new, changed = table.files.new_and_changed(
            listed, history.files(day), partial(with_content_tag, settings.landing)
        )
        if changed:
            why = f"{len(changed)} loaded files changed" + (f", {len(new)} new" if new else "")
            repaired[day] = DayWork(day, why, (), (*new, *changed), tuple(changed))
        elif new:
            fresh[day] = DayWork(day, f"{len(new)} new files", (), tuple(new))
        else:
            idle.append(day)
        if isinstance(table.changes, SnapshotDiff) and (new or changed):
            # A copy is all that lies in its folder.
            again = {file.path: file for file in (*new, *changed)}
            whole = tuple(again.get(file.path, file) for file in listed)
            why = (repaired.get(day) or fresh[day]).why
            fresh[day] = DayWork(day, why, (), whole)
    if isinstance(table.changes, SnapshotDiff):
        works = [copy_work(history, work) for _, work in sorted(fresh.items())]
    else:
        works = [Work("append", "advance", fresh), Work("rebuild", "restate", repaired)]
    return Plan(tuple(w for w in works if w.days), {}, tuple(idle))


def copy_work(history: TableHistory, day: DayWork) -> Work:
    """A full copy is a batch of its own: the next one is told from what it says.

    Where the day itself or a later one is loaded, the rows of a day are replaced.
    """
    if any(loaded >= day.day for loaded in history.last_committed):
        return Work("rebuild", "restate", {day.day: day})
    return Work("append", "advance", {day.day: day})
