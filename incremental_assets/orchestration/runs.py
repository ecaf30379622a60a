"""Doing what is due: Dagster runs over the days that are new or stale, until none is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

import dagster as dg
from rich.console import Console

from incremental_assets.catalog import tables
from incremental_assets.days import DayRange, contiguous, utc_today
from incremental_assets.errors import DefinitionError
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.ledger.view import LedgerView
from incremental_assets.orchestration.events import asset_key
from incremental_assets.orchestration.instance import open_instance
from incremental_assets.orchestration.partitions import RANGE_END, RANGE_START
from incremental_assets.plan import landing_days_with_news
from incremental_assets.plan.due import stale_work
from incremental_assets.settings import Settings
from incremental_assets.table import Table

MOST_ROUNDS = 12
_QUIET = {"loggers": {"console": {"config": {"log_level": "INFO"}}}}


@dataclass
class RunReport:
    """What was run: the number of runs, what failed, and which days are held, in words."""

    runs: int = 0
    failed: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)


def run_what_is_due(
    defs: dg.Definitions,
    settings: Settings,
    names: Sequence[str],
    days: DayRange | None,
    now: datetime,
    out: Console,
) -> RunReport:
    """Run what is new, then what that made stale, until nothing is due.

    Each run takes a contiguous range of days. A range that failed is not tried again within
    this call. Raises an IncrementalAssetsError if the landing or the ledger cannot be read.
    """
    chosen = _chosen(names)
    last = utc_today(now)
    span = days or DayRange(settings.start_date, last)
    instance = open_instance(settings)
    job = defs.resolve_implicit_global_asset_job_def()
    report = RunReport()
    tried: set[tuple[str, DayRange]] = set()
    for _ in range(MOST_ROUNDS):
        due = _due(chosen, settings, span, last)
        todo = [item for item in due if (item[0][0].name, item[1]) not in tried]
        if not todo:
            break
        for group, some in todo:
            tried.add((group[0].name, some))
            what = ", ".join(table.name for table in group)
            out.print(f"[bold]{some}[/]: {what}", soft_wrap=True)
            result = job.execute_in_process(
                instance=instance,
                asset_selection=[asset_key(table) for table in group],
                tags={RANGE_START: str(some.first), RANGE_END: str(some.last)},
                run_config=_QUIET,
                raise_on_error=False,
            )
            report.runs += 1
            report.failed += _failures(result)
    view = Ledger(ledger_path(settings.lake)).view()
    report.held = [
        f"{table.name} {day} by batch {entry.batch}: {entry.held_by}"
        for table in chosen
        for day, entry in sorted(view.table(table.name).held.items())
        if day in span
    ]
    return report


def _chosen(names: Sequence[str]) -> list[Table]:
    known = {table.name: table for table in tables()}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise DefinitionError(f"There is no table {unknown[0]!r}; the tables are {list(known)}.")
    return [table for name, table in known.items() if not names or name in names]


def _due(
    chosen: Sequence[Table], settings: Settings, span: DayRange, today: date
) -> list[tuple[list[Table], DayRange]]:
    """What to run next: landing days with everything below them, or else the stale days."""
    view = Ledger(ledger_path(settings.lake)).view()
    landed = _new_landing_days(chosen, settings, view, span, today)
    if landed:
        return [(list(chosen), days) for days in contiguous(landed)]
    due = stale_work(chosen, view, settings.start_date, today, span)
    return [(list(each.tables), each.days) for each in due]


def _new_landing_days(
    chosen: Iterable[Table],
    settings: Settings,
    view: LedgerView,
    span: DayRange,
    today: date,
) -> set[date]:
    found: set[date] = set()
    for table in chosen:
        if table.layer == "bronze":
            news = landing_days_with_news(table, view, settings, settings.start_date, today)
            found |= {day for day in news if day in span}
    return found


def _failures(result: dg.ExecuteInProcessResult) -> list[str]:
    said = []
    for event in result.get_step_failure_events():
        failure = event.step_failure_data.user_failure_data
        said.append(
            (failure.description if failure else None)
            or event.step_failure_data.error_display_string.splitlines()[0]
        )
    return said
