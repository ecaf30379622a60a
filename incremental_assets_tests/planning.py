"""A plan and the run after it, side by side: what was planned, what was done, and what more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from incremental_assets.days import parse_days
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.ledger.entry import Window
from incremental_assets.plan.forecast import Forecast, forecast
from incremental_assets.plan.rounds import due_runs
from incremental_assets.table import Table

# Batch, table, day, mode, kind, windows and the number of files.
Done = tuple[int, str, date, str, str, tuple[Window, ...], int]


@dataclass(frozen=True)
class Compared:
    """What a plan said, and what the ledger has since of the run that followed it."""

    plan: Forecast
    planned: frozenset[Done]
    done: frozenset[Done]

    @property
    def in_addition(self) -> set[tuple[str, int]]:
        """Tables and days of January that were done and not planned."""
        return {(table, day.day) for _, table, day, *_ in self.done - self.planned}

    @property
    def left_out(self) -> set[tuple[str, int]]:
        """Tables and days of January that were planned and not done."""
        return {(table, day.day) for _, table, day, *_ in self.planned - self.done}

    @property
    def may_follow(self) -> set[str]:
        """The tables of which the plan said that days may follow."""
        return {name for day in self.plan.days for name in day.may_follow}

    def days(self, table: str) -> dict[int, str]:
        """The mode of each planned day of January."""
        return {d.day.day: d.mode for d in self.plan.days if d.table == table}

    def skipped(self) -> dict[tuple[str, int], str]:
        return {(s.table, s.first.day): s.reason for s in self.plan.skipped}


def plan_and_run(
    lakehouse: Lakehouse, tables: Sequence[Table], now: datetime, days: str | None = None
) -> Compared:
    """Plan these tables, then load what is due, as Dagster's runs do, and compare."""
    span = parse_days(days) if days else None
    plan = forecast(tables, lakehouse.ledger.view_if_any(), lakehouse.settings, span, now)
    before = {t.name: len(lakehouse.ledger.view_if_any().table(t.name).loads) for t in tables}
    for due in due_runs(
        tables, lakehouse.settings, span, lambda: now, lakehouse.ledger.view_if_any
    ):
        failed: set[str] = set()
        for table in due.tables:
            above = {read.table.name for read in table.upstreams} | table.rule_tables
            if failed & above or lakehouse.load(table, list(due.days)).failed:
                failed.add(table.name)
    view = lakehouse.ledger.view_if_any()
    return Compared(
        plan,
        frozenset((d.batch, d.table, d.day, d.mode, d.kind, d.windows, d.files) for d in plan.days),
        frozenset(
            (e.batch, e.table, e.day, e.mode, e.kind, tuple(e.windows), len(e.files))
            for t in tables
            for e in view.table(t.name).loads[before[t.name] :]
        ),
    )
