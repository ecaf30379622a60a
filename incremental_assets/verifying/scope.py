"""What has to be rebuilt to verify a table, and which of its days can be compared.

The ledger alone decides. A silver day is rebuilt from just what it has read of bronze, so what it
has not read yet makes no difference. It cannot be compared where bronze no longer has what it read
(a file was repaired since), nor can a stale gold day, which was made from an earlier upstream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from incremental_assets.days import DayRange
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan import not_read, upstream_held
from incremental_assets.quality.rule import RowRule
from incremental_assets.table import AsOf, Table

WhyLeftOut = Mapping[date, str]


@dataclass(frozen=True)
class TableDays:
    """The days of one table that are rebuilt."""

    table: Table
    days: tuple[date, ...]


@dataclass(frozen=True)
class DaysToVerify:
    """What is rebuilt, upstreams first, from which bronze tables, and what is compared.

    `empty` are tables of which no day is rebuilt, and only the columns are needed. `left_out` are
    the days that are not compared, with why; of a table whose rows belong to keys it may be that
    none can be. `before` bounds what is compared from above, where a later day
    spoils all that follow it.
    """

    parts: tuple[TableDays, ...] = ()
    bronze: tuple[Table, ...] = ()
    empty: tuple[Table, ...] = ()
    left_out: WhyLeftOut = field(default_factory=dict)
    before: date | None = None

    def days_of(self, table: Table) -> tuple[date, ...]:
        """The days of a table that are rebuilt."""
        return next((part.days for part in self.parts if part.table.name == table.name), ())


def days_to_verify(
    table: Table, tables: Sequence[Table], view: LedgerView, asked: DayRange | None
) -> DaysToVerify:
    """What verifies these days of a silver or gold table; None: all that it has."""
    broken = _NotRebuildable(view)
    left_out, before = _left_out(table, view, broken.of(table))
    if asked is not None:
        left_out = {day: why for day, why in left_out.items() if day in asked}
    named = {each.name: each for each in tables}
    needed: dict[str, DayRange | None] = {}
    _need(table, asked, named, needed)
    wanted = [each for each in tables if each.name in needed]
    parts, empty = [], []
    for each in wanted:
        if each.layer == "bronze":
            continue
        span, bad = needed[each.name], frozenset(broken.of(each))
        if each.name == table.name and stands_alone(table):
            bad = frozenset(left_out)
        loaded = view.table(each.name).last_committed
        days = [d for d in loaded if (span is None or d in span) and d not in bad]
        if days:
            parts.append(TableDays(each, tuple(sorted(days))))
        elif loaded:
            empty.append(each)
    bronze = tuple(each for each in wanted if each.layer == "bronze")
    return DaysToVerify(tuple(parts), bronze, tuple(empty), left_out, before)


def stands_alone(table: Table) -> bool:
    """Whether the rows of a day follow from the upstream's rows of that day alone."""
    if table.write.recomputes_keys:
        return False
    return table.day is not None if table.is_typed else True


def _left_out(table: Table, view: LedgerView, broken: WhyLeftOut) -> tuple[WhyLeftOut, date | None]:
    """The days that are not compared, with the reason, and the day from which on none is."""
    history = view.table(table.name)
    found = dict(broken)
    for day in _offered(table, view):
        held, above = history.held.get(day), upstream_held(table, day, view)
        if held is not None:
            found[day] = f"held since batch {held.batch}: {held.held_by}"
        elif above:
            found[day] = above
        elif day not in found and (what := not_read(table, day, view)):
            found[day] = f"stale: it has not read {what}"
    for entry in history.unsettled:
        found[entry.day] = (
            f"batch {entry.batch} is being loaded, or its run died; run the day, and verify again"
        )
    before = None
    if table.write.running_columns and broken:
        before = min(broken)
    return dict(sorted(found.items())), before


def _offered(table: Table, view: LedgerView) -> set[date]:
    """The days that the table has, or that its upstreams have or hold back for it."""
    history = view.table(table.name)
    found = {*history.last_committed, *history.held}
    for read in table.upstreams:
        above = view.table(read.table.name)
        found |= {*above.touching, *above.held}
        if read.table.upstreams:
            found |= {day for day in _offered(read.table, view) if upstream_held(table, day, view)}
    return found


class _NotRebuildable:
    """Per table: the loaded days whose rows cannot be rebuilt, with the reason."""

    def __init__(self, view: LedgerView) -> None:
        self._view = view
        self._found: dict[str, WhyLeftOut] = {}

    def of(self, table: Table) -> WhyLeftOut:
        if table.name not in self._found:
            of = self._typed if table.is_typed else self._derived
            self._found[table.name] = {} if table.layer == "bronze" else of(table)
        return self._found[table.name]

    def _typed(self, table: Table) -> WhyLeftOut:
        history = self._view.table(table.name)
        furthest: dict[tuple[str, date], int] = {}
        for entry in history.committed:
            for window in entry.windows:
                at = (window.upstream, entry.day)
                furthest[at] = max(furthest.get(at, 0), window.high)
        found: dict[date, str] = {}
        for upstream in (read.table.name for read in table.upstreams):
            above = self._view.table(upstream)
            for day in history.last_committed:
                low = history.watermark(upstream, day)
                repaired = [e for e in above.changes(day, low) if e.replaces_rows]
                if repaired:
                    found[day] = (
                        f"stale: {upstream} batch {repaired[-1].batch} repaired what it had read"
                    )
                elif furthest.get((upstream, day), 0) > low:
                    found[day] = f"stale: its watermark was rewound to {upstream} batch {low}"
        return found if table.day is not None else self._all_of(table, found)

    def _derived(self, table: Table) -> WhyLeftOut:
        loaded = self._view.table(table.name).last_committed
        found: dict[date, str] = {}
        for day in loaded:
            what = not_read(table, day, self._view)
            if what:
                found[day] = f"stale: it has not read {what}"
        for read in table.upstreams:
            above = self.of(read.table)
            if isinstance(read, AsOf) and above:
                why = _above(read.table, above, min(above))
                return {day: found.get(day, why) for day in loaded}
            found |= {
                d: _above(read.table, above, d) for d in loaded if d in above and d not in found
            }
        if not table.write.recomputes_keys:
            return found
        if table.write.running_columns and found:
            first = min(found)
            why = f"it goes on from {first} ({found[first]})"
            return {day: found.get(day, why) for day in loaded if day >= first}
        return self._all_of(table, found)

    def _all_of(self, table: Table, found: WhyLeftOut) -> WhyLeftOut:
        """The reason for each day, where one day affects all."""
        if not found:
            return found
        first = min(found)
        why = f"its keys may be those of {first} ({found[first]})"
        return {d: found.get(d, why) for d in self._view.table(table.name).last_committed}


def _above(table: Table, broken: WhyLeftOut, day: date) -> str:
    return f"{table.name} {day}: {broken[day]}"


def _need(
    table: Table,
    asked: DayRange | None,
    tables: Mapping[str, Table],
    found: dict[str, DayRange | None],
) -> None:
    """Add which days of which tables have to be there for these days of a table."""
    own = _own(table, asked)
    if table.name in found:
        own = _both(found[table.name], own)
        if own == found[table.name]:
            return
    found[table.name] = own
    if table.layer == "bronze":
        return
    for read in table.upstreams:
        _need(read.table, None if isinstance(read, AsOf) else own, tables, found)
    for rule in table.rules:
        if rule.reads_table and rule.reads_table != table.name:
            whole = isinstance(rule, RowRule)
            _need(tables[rule.reads_table], None if whole else own, tables, found)


def _own(table: Table, asked: DayRange | None) -> DayRange | None:
    """The days of the table itself that decide what these days of it hold."""
    if asked is None or table.layer == "bronze" or stands_alone(table):
        return asked
    if table.write.running_columns:
        return DayRange(date.min, asked.last)
    return None


def _both(a: DayRange | None, b: DayRange | None) -> DayRange | None:
    if a is None or b is None:
        return None
    return DayRange(min(a.first, b.first), max(a.last, b.last))
