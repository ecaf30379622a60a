"""What is known only by reading a batch's rows: which other days it will change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.due import with_downstream
from incremental_assets.plan.work import Work
from incremental_assets.table import AsOf, SameDay, Table

KNOWN_BY_READING = (
    "A day that its gate holds is not published, and nothing is built on it; rows that change "
    "nothing make nothing stale."
)


def what_may_follow(
    table: Table, work: Work, chosen: Sequence[Table], view: LedgerView
) -> tuple[str, tuple[str, ...]]:
    """The reason that a batch may make other days stale, and the tables whose days they are.

    Both are empty where the batch changes its own days and no others look it up.
    """
    reasons = []
    follow: set[str] = set()
    other_days = _other_days(table, work, view)
    readers = [t for t in chosen if any(_reads(t, table, SameDay))]
    if other_days and readers:
        reasons.append(other_days)
        follow |= _with_below(readers, chosen)
    lookers = [t for t in chosen if any(_reads(t, table, AsOf)) and view.table(t.name).high]
    if lookers:
        names = ", ".join(t.name for t in lookers)
        reasons.append(f"the days of {names} whose rows look up what changes are rebuilt")
        follow |= _with_below(lookers, chosen)
    return "; ".join(reasons), tuple(t.name for t in chosen if t.name in follow)


def _other_days(table: Table, work: Work, view: LedgerView) -> str:
    """Why a batch may change other days than its own."""
    if table.layer == "bronze":
        return _other_landing_days(table, work)
    if table.write.recomputes_keys:
        return "the rows of a key may be on any day, and change there"
    any_day = table.is_typed and table.day is None and not table.write.appends
    first = work.mode == "append" and not view.table(table.name).high
    if not any_day or first:
        return ""
    return "a key that changes may be on other days, which change with it"


def _other_landing_days(table: Table, work: Work) -> str:
    if table.changes.compares_days:
        return "a snapshot that equals the one before changes nothing, and nothing follows"
    if table.day is not None and work.mode == "rebuild":
        return "a changed file changes each day that its rows are about, or were"
    if table.day is not None:
        return "rows that are about another day than they landed on change that day"
    if table.landing_column is not None:
        return "the days for which the source has new rows are known by reading it"
    return ""


def _reads(table: Table, upstream: Table, how: type[SameDay] | type[AsOf]) -> Iterable[bool]:
    return (isinstance(r, how) and r.table.name == upstream.name for r in table.upstreams)


def _with_below(tables: Iterable[Table], chosen: Sequence[Table]) -> set[str]:
    return {below.name for table in tables for below in with_downstream(table, chosen)}
