"""A bronze table, loaded again from its source, as far as that still has what was loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets.days import utc_today
from incremental_assets.decodable import decodable_stored
from incremental_assets.engine.snapshot_diff import KEY, as_identified_now, is_damaged
from incremental_assets.errors import DefinitionError
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan import DayWork, Plan, Work, plan_table
from incremental_assets.plurals import counted
from incremental_assets.row_hash import payload_hash
from incremental_assets.sources.feed import Feed
from incremental_assets.sources.source_file import SourceFile, with_content_tag
from incremental_assets.table import Table
from incremental_assets.verifying.compare import Matching, compare
from incremental_assets.verifying.rebuild import Asked, LakeRebuild, Method
from incremental_assets.verifying.rows import RowSelection
from incremental_assets.verifying.scope import DaysToVerify, TableDays
from incremental_assets.verifying.verified import Compared

_NAMED_FILES = 3
_DAY = "_landing_day"


def bronze_rebuild(asked: Asked) -> LakeRebuild:
    """The rebuild of what of a bronze table can be loaded again now.

    Raises DefinitionError for a source that keeps no earlier state, and SourceError for one that
    cannot be listed.
    """
    table = asked.table
    if table.feed is not None:
        return _landed(asked, table.feed)
    if table.why_not_again:
        raise DefinitionError(
            f"{table.name} cannot be rebuilt: {table.why_not_again}. Let its source land in day "
            "folders (LandedFiles) to be able to verify it; verify the tables that are built on "
            "it, which start from what bronze has."
        )
    return _stored(asked)


def _landed(asked: Asked, feed: Feed) -> LakeRebuild:
    """Files in day folders: those that are as they were when they were loaded."""
    table, history, landing = asked.table, asked.history, asked.lakehouse.settings.landing
    comparison, span = table.changes.comparison, asked.days
    snapshots = comparison is not None
    days = [
        day
        for day in sorted(history.last_committed)
        if span is None or day in span or (snapshots and day <= span.last)
    ]
    unchanged: dict[date, tuple[SourceFile, ...]] = {}
    left_out: dict[date, str] = {}
    left_out_files: set[str] = set()
    notes: list[str] = []
    for day in days:
        retracted, known = history.retracted(day), history.files(day)
        there = feed.files(landing, day, history)
        listed = [file for file in there if not file.waits or file.path in known]
        new, changed = table.changes.new_and_changed(
            listed, known, partial(with_content_tag, landing)
        )
        other = {file.path for file in (*new, *changed)}
        same = tuple(file for file in listed if file.path not in other)
        same = tuple(file for file in same if file.path not in retracted)
        missing = sorted(set(known) - retracted - {file.path for file in same})
        if retracted and not (same or missing or day in history.held):
            continue  # nothing of it may be there
        held = history.held.get(day)
        if held is not None:
            left_out[day] = f"held since batch {held.batch}: {held.held_by}"
        elif missing and (snapshots or not same):
            left_out[day] = (
                f"stale: {_files(missing)} are no longer in the landing, or have changed"
            )
        elif missing:
            left_out_files |= set(missing)
            notes.append(f"{day}: rows of {_files(missing)} are not compared: removed, or changed")
        if new:
            notes.append(f"{day}: {_files([file.path for file in new])} are not loaded yet")
        if day not in left_out:
            unchanged[day] = same
    if comparison is not None:
        known_days = [day for day in days if day in unchanged or day in left_out]
        parts = bool(comparison.scope)
        left_out |= _after_a_missing_snapshot(history, known_days, left_out, parts=parts)
    chosen = _days_to_verify(asked, table, tuple(unchanged), left_out)
    rows = RowSelection(span, tuple(chosen.left_out), files=left_out_files)
    compared = partial(_compared_by_line, comparison.key if comparison is not None else ())
    method = Method(partial(_plan_files, unchanged, snapshots), rows, _DAY, compared)
    return LakeRebuild(asked, chosen, method, notes)


def _after_a_missing_snapshot(
    history: TableHistory, days: Sequence[date], missing: Mapping[date, str], *, parts: bool
) -> dict[date, str]:
    """The snapshots after a missing one, up to one that does not depend on it.

    With `parts` of the table all of them do: it may have been the last one of another part.
    """
    found: dict[date, str] = {}
    before: date | None = None
    for day in days:
        if day in missing:
            before = day
        elif before is not None:
            found[day] = (
                f"the snapshot of {before}, which it is compared with, was not loaded again"
            )
            before = day if parts or is_damaged(history.last_committed[day]) else None
    return found


def _plan_files(
    unchanged: Mapping[date, tuple[SourceFile, ...]],
    snapshots: bool,  # noqa: FBT001 - bound by partial
    scratch: Lakehouse,
    table: Table,
    days: Sequence[date],
    view: LedgerView,
) -> Plan:
    works = {
        day: DayWork(day, counted(len(unchanged[day]), "file"), (), unchanged[day]) for day in days
    }
    each = [{day: work} for day, work in works.items()] if snapshots else [works]
    return Plan(tuple(Work("append", "advance", some) for some in each))


def _compared_by_line(key: Sequence[str], real: DataFrame, rebuilt: DataFrame) -> Compared:
    if key:  # of a snapshot's rows
        real = real.withColumn(KEY, as_identified_now(key))
    by = Matching(_DAY, (), [name for name in real.columns if name != "_batch"], ("_file",))
    return compare(_decodable(real), _decodable(rebuilt), by)


def _stored(asked: Asked) -> LakeRebuild:
    """A stored table or log: the days that did not change since they were loaded."""
    table, history, today = asked.table, asked.history, utc_today(asked.now)
    dated = table.landing_column is not None
    loaded = sorted(history.last_committed)
    ask_for, settings = loaded if dated else [today], asked.lakehouse.settings
    plan = plan_table(table, ask_for, asked.view, settings, today, now=asked.now)
    changed = {day: f"stale: {todo.why}" for w in plan.work for day, todo in w.days.items()}
    if not dated and changed:
        changed = dict.fromkeys(loaded, changed[today])
    left_out = {d: f"held since batch {e.batch}: {e.held_by}" for d, e in history.held.items()}
    left_out |= changed
    if dated:
        days = [d for d in loaded if d not in left_out and (asked.days is None or d in asked.days)]
    else:
        days = [] if left_out else [today]
    # Later loads have already passed a gap that a load waited for.
    again = replace(table, changes=table.changes.passing_gaps())
    chosen = _days_to_verify(asked, again, tuple(days), left_out)
    rows = RowSelection(asked.days, tuple(chosen.left_out)) if dated else RowSelection()
    method = Method(Lakehouse.plan, rows, _DAY, partial(_compared_by_hash, dated))
    return LakeRebuild(asked, chosen, method)


def _compared_by_hash(
    dated: bool,  # noqa: FBT001 - bound by partial
    real: DataFrame,
    rebuilt: DataFrame,
) -> Compared:
    """Rows of a source that may lack old ones; the file may be another now.

    A column that was added makes no difference. Where the day is that of the load, a rebuild has
    none; where the rows show it, those without a timestamp have none on either side.
    """
    columns = ["payload", "_raw"]
    if dated:
        columns.append(_DAY)
    else:
        rebuilt = rebuilt.withColumn(_DAY, F.lit(None).cast("date"))
    real, rebuilt = (
        _decodable(side).withColumn("payload", payload_hash("payload")) for side in (real, rebuilt)
    )
    return compare(real, rebuilt, Matching(_DAY, ("_hash",), columns, ("_hash",), forgets=True))


def _decodable(rows: DataFrame) -> DataFrame:
    """With lines as this version stores them, whichever stored them."""
    return rows.withColumn("_raw", decodable_stored(F.col("_raw")))


def _days_to_verify(
    asked: Asked, table: Table, days: tuple[date, ...], left_out: dict[date, str]
) -> DaysToVerify:
    loading = {
        entry.day: f"batch {entry.batch} is being loaded, or its run died"
        for entry in asked.history.unsettled
    }
    found = sorted((left_out | loading).items())
    shown = {day: why for day, why in found if asked.days is None or day in asked.days}
    return DaysToVerify((TableDays(table, days),), left_out=shown)


def _files(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED_FILES} more" if len(paths) > _NAMED_FILES else ""
    return f"{', '.join(paths[:_NAMED_FILES])}{more}"
