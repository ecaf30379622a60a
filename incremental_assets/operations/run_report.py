"""What a run of everything that is due did: for the exit status, and for who reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from incremental_assets.days import DayRange
from incremental_assets.ledger.entry import Entry, is_of_a_load
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.due import Due
from incremental_assets.plan.rounds import Left
from incremental_assets.table import Table

FAILED, HELD_BEFORE = 1, 3


@dataclass(frozen=True)
class Ran:
    """One run: what it loads, whether all of it succeeded, and what failed."""

    run_id: str
    due: Due
    success: bool
    failed: tuple[str, ...] = ()


@dataclass
class RunReport:
    """What was run, the batches of these runs, what failed, which days are held, what is left.

    `by_gates` are those of the failures that are only that a gate holds a day of `held`.
    `left` is still due, though no run of its days has failed.
    """

    runs: list[Ran] = field(default_factory=list)
    loaded: list[Entry] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    by_gates: set[str] = field(default_factory=set)
    held: list[Entry] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)

    @property
    def in_vain(self) -> list[Due]:
        """What was run and is still due, though nothing came meanwhile."""
        return [each.due for each in self.left if not each.came_later]

    @property
    def only_held(self) -> bool:
        """Whether nothing is wrong but days that a gate holds."""
        return not self.in_vain and set(self.failed) <= self.by_gates

    @property
    def status(self) -> int:
        """The exit status: 0, `FAILED`, or `HELD_BEFORE` where nothing is wrong but old holds."""
        ours = {run.run_id for run in self.runs}
        if self.failed or self.in_vain or any(entry.run_id in ours for entry in self.held):
            return FAILED
        return HELD_BEFORE if self.held else 0


def reported(
    report: RunReport,
    chosen: Sequence[Table],
    left: Sequence[Left],
    before: LedgerView,
    ledger: Ledger,
    days: DayRange | None,
) -> LedgerView:
    """Add to a report what the ledger has of its runs now, and what is left; gives the ledger."""
    _forget_made_good(report)
    failed = [run.due for run in report.runs if not run.success]
    report.left = [each for each in left if not any(_covers(due, each.due) for due in failed)]
    view = ledger.view_if_any()
    ours = {run.run_id for run in report.runs}
    for table in chosen:
        history = view.table(table.name)
        new = history.above(before.table(table.name).last_batch)
        report.loaded += [entry for entry in new if is_of_a_load(entry) and entry.run_id in ours]
        report.held += [e for day, e in sorted(history.held.items()) if days is None or day in days]
    return view


def _forget_made_good(report: RunReport) -> None:
    """Leave out what failed of days that were loaded since, in halves."""
    mended: set[str] = set()
    still: set[str] = set()
    for at, run in enumerate(report.runs):
        later = report.runs[at + 1 :]
        loaded = {
            day
            for other in later
            if other.success and other.due.tables[0] == run.due.tables[0]
            for day in other.due.days
        }
        (mended if set(run.due.days) <= loaded else still).update(run.failed)
    report.failed = [message for message in report.failed if message not in mended - still]


def _covers(run: Due, due: Due) -> bool:
    """Whether a run loaded the first table of what is due, on some of its days."""
    same_days = run.days.first <= due.days.last and due.days.first <= run.days.last
    return same_days and due.tables[0] in run.tables
