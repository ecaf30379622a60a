"""Loading what is new or stale in this process, run by run until nothing is due."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from incremental_assets.days import DayRange
from incremental_assets.errors import IncrementalAssetsError, SparkUnavailableError
from incremental_assets.lakehouse import Lakehouse, TableLoadResult
from incremental_assets.operations.failure_texts import error_of, not_published
from incremental_assets.operations.run_report import Ran, RunReport, reported
from incremental_assets.plan.consistent import require_all_consistent
from incremental_assets.plan.due import Due
from incremental_assets.plan.rounds import Left, Unreadable, due_runs
from incremental_assets.table import Table


@dataclass(frozen=True)
class TableDone:
    """A load of a table, or the error that it ended in; without a run its source was unreadable."""

    table: Table
    result: TableLoadResult | None = None
    error: Exception | None = None
    run_id: str = ""


def load_due(
    lakehouse: Lakehouse,
    chosen: Sequence[Table],
    days: DayRange | None,
    run_id: Callable[[Due], str],
    left: Callable[[Left], None] = lambda _: None,
) -> Iterator[TableDone]:
    """Each load of the chosen tables, upstreams first, until nothing is due.

    What is built on a day that failed is left to a later run, and days that could not be loaded
    together are loaded once more in halves. A table that cannot be loaded, or whose source cannot
    be inspected, does not keep the others back; without Spark none can be loaded. `run_id` is
    called with each run before it starts; its loads are recorded under what it gives. Raises an
    IncrementalAssetsError if no source can be inspected, or the ledger and any of the tables are
    not of the same time.
    """
    require_all_consistent(lakehouse.ledger, lakehouse.settings, chosen)
    unreadable: list[Unreadable] = []
    for due in due_runs(
        chosen,
        lakehouse.settings,
        days,
        lakehouse.now,
        lakehouse.ledger.view_if_any,
        log=lakehouse.log,
        left=left,
        note=lakehouse.log,
        unreadable=unreadable.append,
        in_halves=True,
    ):
        for done in _loads(lakehouse, due, run_id(due)):
            yield done
            if isinstance(done.error, SparkUnavailableError):  # nor is it there for the others
                return
    for each in unreadable:
        yield TableDone(each.table, error=each.error)


def _loads(lakehouse: Lakehouse, due: Due, run_id: str) -> Iterator[TableDone]:
    failed: set[str] = set()
    for table in due.tables:
        if failed & ({read.table.name for read in table.upstreams} | table.rule_tables):
            failed.add(table.name)
            continue
        try:
            result = lakehouse.load(table, list(due.days), run_id)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are loaded
            if not isinstance(error, IncrementalAssetsError):
                lakehouse.log(f"{table.name}: {traceback.format_exc()}")
            failed.add(table.name)
            yield TableDone(table, error=error, run_id=run_id)
            continue
        failed |= {table.name} if result.failed else set()
        yield TableDone(table, result, run_id=run_id)


def run_in_this_process(
    lakehouse: Lakehouse,
    chosen: Sequence[Table],
    days: DayRange | None,
    announce: Callable[[Due], None],
) -> RunReport:
    """Load what is due, without Dagster; `announce` is called with each run before it starts.

    Raises as `load_due` does.
    """
    report, before = RunReport(), lakehouse.ledger.view_if_any()
    left: list[Left] = []

    def begun(due: Due) -> str:
        announce(due)
        report.runs.append(Ran(str(uuid4()), due, success=True))
        return report.runs[-1].run_id

    for done in load_due(lakehouse, chosen, days, begun, left.append):
        message, of_held = _failure(lakehouse, done)
        if not message:
            continue
        if done.run_id:
            last = report.runs[-1]
            report.runs[-1] = replace(last, success=False, failed=(*last.failed, message))
        if message not in report.failed:  # it is tried again for what has become stale
            report.failed.append(message)
            report.by_gates |= {message} if of_held else set()
    reported(report, chosen, left, before, lakehouse.ledger, days)
    return report


def _failure(lakehouse: Lakehouse, done: TableDone) -> tuple[str, bool]:
    """What failed, and whether it is only that the table's own gate holds days."""
    if done.error is not None:
        return error_of(done.table, done.error), False
    failed = done.result.failed if done.result is not None else {}
    if not failed:
        return "", False
    text = not_published(lakehouse, done.table, failed, lakehouse.ledger.view())
    return text, all(day.state == "held" for day in failed.values())
