"""The plan: what a run would do now, computed over the ledger as it is expected to be.

The rounds are those of a run, and each table's work is planned by the same code; instead of being
loaded, a batch is added to the view of the ledger with the entries that it would write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cache, partial
from typing import Literal

from incremental_assets.days import DayRange, named, utc_today, within_partitions
from incremental_assets.delta.delta_table import bytes_per_row
from incremental_assets.errors import IncrementalAssetsError, LedgerError
from incremental_assets.ledger.entry import Mode, Window
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.batches import in_batches
from incremental_assets.plan.due import Due
from incremental_assets.plan.expected import Expected, expected_batch
from incremental_assets.plan.expected_seconds import expected_seconds
from incremental_assets.plan.follows import KNOWN_BY_READING, what_may_follow
from incremental_assets.plan.inspector import Inspector
from incremental_assets.plan.landed import no_longer_landed
from incremental_assets.plan.plan import plan_table
from incremental_assets.plan.plan_inspector import PlanInspector
from incremental_assets.plan.rounds import Unreadable, due_runs
from incremental_assets.plan.skipped import Skipped, skipped
from incremental_assets.plan.work import Plan, Work
from incremental_assets.plurals import counted
from incremental_assets.settings import Settings
from incremental_assets.table import Table


@dataclass(frozen=True, slots=True)
class PlannedDay:
    """A day of a table in a run: `run` and `batch` are the numbers that they would have.

    `rows` are those that are read, None where unknown, estimated where `is_estimate` is true; so
    are the `bytes` of a table of the lake. `bytes` and `seconds` of a batch are divided among its
    days. `may_follow` are tables of which further days may be loaded, `unknown` is the reason.
    """

    run: int
    batch: int
    table: str
    day: date
    mode: Mode | Literal["skip"]
    kind: str
    windows: tuple[Window, ...]
    files: int
    rows: int | None
    bytes: int | None
    is_estimate: bool
    seconds: float | None
    reason: str
    may_follow: tuple[str, ...]
    unknown: str


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run would do, in its order; what it would skip, and why; and notes for the reader.

    `unplanned` are the tables that cannot be planned, which does not keep the others back.
    """

    days: tuple[PlannedDay, ...]
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...]
    unplanned: tuple[Unreadable, ...] = ()

    @property
    def runs(self) -> int:
        """How many runs there would be."""
        return max((day.run for day in self.days), default=0)


def forecast(
    chosen: Sequence[Table],
    view: LedgerView,
    settings: Settings,
    days: DayRange | None,
    now: datetime,
    log: Callable[[str], None] = lambda _: None,
    inspection: PlanInspector | None = None,
) -> Forecast:
    """What a run of these tables and days would do now. Changes nothing and needs no Spark.

    A source that the `inspection` has inspected before is not inspected again.
    Raises DayError for days outside the partitions, and the error of the first source if none of
    them can be inspected.
    """
    today = utc_today(now)
    span = within_partitions(days, settings.start_date, today)
    inspection = inspection or PlanInspector()
    ahead = _Ahead(chosen, view, settings, now, inspection)
    due = due_runs(
        chosen,
        settings,
        span,
        lambda: now,
        lambda: ahead.view,
        inspection,
        log,
        unreadable=ahead.unplanned.append,
        note=ahead.notes.append,
    )
    for number, each in enumerate(due, 1):
        log(f"Planning {each.days} of {each.tables[0].name} and what is built on it")
        ahead.run(number, each)
    planned = {(day.table, day.day) for day in ahead.days}
    unplanned = {each.table.name: each for each in reversed(ahead.unplanned)}  # once, and the first
    others = [table for table in chosen if table.name not in unplanned]
    left = skipped(others, ahead.view, settings, span, today, planned)
    own = [
        note
        for t in chosen
        for note in (_unfinished(t, view), _no_longer_landed(t, view, inspection, span))
    ]
    notes = [*filter(None, own), *ahead.notes, *([KNOWN_BY_READING] if planned else [])]
    return Forecast(
        tuple(ahead.days),
        tuple(left),
        tuple(dict.fromkeys(notes)),
        tuple(unplanned[table.name] for table in chosen if table.name in unplanned),
    )


@dataclass
class _Ahead:
    """The ledger as it will be, and the days that are loaded on the way."""

    chosen: Sequence[Table]
    view: LedgerView
    settings: Settings
    now: datetime
    inspection: Inspector
    days: list[PlannedDay] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unplanned: list[Unreadable] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._known = self.view
        self._bytes_per_row = cache(lambda name: bytes_per_row(f"{self.settings.lake}/{name}"))

    def run(self, number: int, due: Due) -> None:
        """Plan a run: a table with an unpublished day ends it for the tables built on it."""
        failed: set[str] = set()
        for table in due.tables:
            if failed & ({read.table.name for read in table.upstreams} | table.rule_tables):
                failed.add(table.name)
                continue
            try:
                for plan in in_batches(table, list(due.days), partial(self._planned, table)):
                    self.notes += [f"{table.name}: {note}" for note in plan.notes]
                    held = [self._batch(number, table, work) for work in plan.work]
                    if plan.refused or any(held):
                        failed.add(table.name)
            except LedgerError:
                raise
            except IncrementalAssetsError as error:
                self.unplanned.append(Unreadable(table, error))
                failed.add(table.name)

    def _planned(self, table: Table, days: Sequence[date]) -> Plan:
        today = utc_today(self.now)
        return plan_table(
            table, days, self.view, self.settings, today, self.inspection, now=self.now
        )

    def _batch(self, run: int, table: Table, work: Work) -> bool:
        """Add a batch; returns whether a day of it will be held."""
        expected = expected_batch(table, work, self.view, self._known, self.now)
        unknown, may_follow = what_may_follow(table, work, self.chosen, self.view)
        read = [each.size.read for each in expected]
        rows = None if None in read else sum(filter(None, read))
        seconds = expected_seconds(self._known.table(table.name), work.mode, rows)
        shares = _shares(expected)
        sizes = self._bytes(table, work, expected, shares)
        self.days += [
            PlannedDay(
                run=run,
                batch=each.entry.batch,
                table=table.name,
                day=each.entry.day,
                mode=work.mode,
                kind=work.kind,
                windows=tuple(each.entry.windows),
                files=len(each.todo.files),
                rows=each.size.read,
                bytes=size,
                is_estimate=each.size.is_estimate,
                seconds=None if seconds is None else round(seconds * share, 3),
                reason=_reason(each),
                may_follow=may_follow,
                unknown=unknown,
            )
            for each, share, size in zip(expected, shares, sizes, strict=True)
        ]
        self.view = self.view.followed_by(table.name, [each.entry for each in expected])
        return any(each.entry.state == "held" for each in expected)

    def _bytes(
        self, table: Table, work: Work, expected: Sequence[Expected], shares: Sequence[float]
    ) -> list[int | None]:
        if table.layer != "bronze":
            each_row = self._bytes_per_row(expected[0].todo.windows[0].upstream)
            return [
                None if each_row is None or each.size.read is None else round(each_row * rows)
                for each in expected
                for rows in (each.size.read or 0,)
            ]
        if any(each.todo.files for each in expected):
            return [sum(file.size for file in each.todo.files) for each in expected]
        return [round(work.bytes * share) for share in shares]


def _shares(expected: Sequence[Expected]) -> list[float]:
    """The share of each day in its batch, by rows; equal shares where no rows are expected."""
    rows = [each.size.read or 0 for each in expected]
    total = sum(rows)
    return [n / total if total else 1 / len(rows) for n in rows]


def _reason(each: Expected) -> str:
    if each.entry.state == "held":
        return (
            f"{each.todo.why}; its gate held it and its input has not changed, so it will be held "
            f"again: {each.entry.held_by}"
        )
    return each.todo.why


def _unfinished(table: Table, view: LedgerView) -> str:
    claims: Iterable[int] = {claim.batch for claim in view.table(table.name).unsettled}
    numbers = ", ".join(map(str, sorted(claims)))
    return numbers and (
        f"{table.name}: Batch {numbers} has no outcome yet. Unless a run is loading it, the next "
        "run settles it; if it turns out that it was published, what it read is not read again."
    )


def _no_longer_landed(
    table: Table, view: LedgerView, inspection: PlanInspector, span: DayRange
) -> str:
    listed = {day: files for day, files in inspection.seen(table.input).items() if day in span}
    missing = no_longer_landed(listed, view.table(table.name))
    if not missing:
        return ""
    number = sum(missing.values())
    was, are = ("was", "is") if number == 1 else ("were", "are")
    files = f"{counted(number, 'file')} that {was} loaded {are}"
    return (
        f"{table.name}: {files} no longer in landing ({named(missing)}). Their rows stay; what was "
        "not archived on purpose was lost there, and what should never have landed is to be "
        "retracted (`incremental-assets retract FILE --why …`)."
    )
