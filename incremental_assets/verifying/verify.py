"""Verifying a table: rebuilding it from bronze in a scratch lake, and comparing row by row."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from incremental_assets.days import DayRange, named
from incremental_assets.delta.delta_table import bytes_of, open_table, version_of
from incremental_assets.engine.batch import quarantine_path
from incremental_assets.errors import DefinitionError, LakeError
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.ledger.ledger import ledger_path
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.consistent import require_all_consistent
from incremental_assets.plurals import counted
from incremental_assets.spark.failure import SPARK_ERRORS, what_failed
from incremental_assets.spark.load_session import own_session, size_of
from incremental_assets.table import Table
from incremental_assets.verifying.bronze import Reload, reload, reload_of
from incremental_assets.verifying.compare import compare
from incremental_assets.verifying.quarantine import quarantine_compared
from incremental_assets.verifying.rebuild import clone_bronze, rebuild
from incremental_assets.verifying.rows import (
    RowSelection,
    as_hashed,
    by_hash,
    by_key,
    by_line,
    rebuilt_rows,
    table_rows,
    with_lines,
)
from incremental_assets.verifying.scope import TableDays, VerifyScope, scope_of
from incremental_assets.verifying.scratch import FOLDER, scratch_lake, size_text
from incremental_assets.verifying.verified import Compared, Verified

_NAMED_DAYS = 5


def verify(
    lakehouse: Lakehouse, table: Table, days: DayRange | None = None, scratch: str | None = None
) -> Verified:
    """Rebuild a table, and all tables above it, from bronze, and compare it row by row.

    The rebuild is below `scratch` (a path or URI; default in the lake) until it is compared.
    Nothing of the lake is changed, and loads that go on meanwhile are not waited for: everything
    is read as it is now. Days that are stale or held are left out. Raises DefinitionError where
    there is nothing to compare, LedgerError if the ledger and these tables are inconsistent, and
    LakeError if the comparison failed.
    """
    started = time.monotonic()
    require_all_consistent(lakehouse.ledger, lakehouse.settings, _made_of(table))
    view = _view(lakehouse)
    history = view.table(table.name)
    _require_loaded(table, history, days)
    of = _of_bronze if table.layer == "bronze" else _of_derived
    found = of(lakehouse, table, view, days, scratch or f"{lakehouse.settings.lake}/{FOLDER}")
    return replace(found, seconds=round(time.monotonic() - started, 3))


def _of_derived(
    lakehouse: Lakehouse, table: Table, view: LedgerView, days: DayRange | None, scratch_path: str
) -> Verified:
    """A silver or gold table: it and all tables between it and bronze are rebuilt."""
    scope = scope_of(table, lakehouse.tables, view, days)
    fixed = _fixed(lakehouse, table, scope, view)
    history = view.table(table.name)
    found = Verified(table.name, fixed.versions[table.name], history.high, left_out=scope.left_out)
    if not scope.days_of(table):
        return found
    _log_scope(lakehouse, table, scope, view)
    size = sum(_bytes(lakehouse, part) for part in scope.parts)
    lakehouse.log(f"{table.name}: the rebuild takes about {size_text(size)} below {scratch_path}")
    with scratch_lake(scratch_path, lakehouse.now(), size, lakehouse.log) as folder:
        return _compared(lakehouse, lakehouse.in_lake(folder), table, scope, fixed, found, days)


def _of_bronze(
    lakehouse: Lakehouse, table: Table, view: LedgerView, days: DayRange | None, scratch_path: str
) -> Verified:
    """A bronze table: what its source still has is loaded again."""
    what, history = reload_of(lakehouse, table, view, days), view.table(table.name)
    path = f"{lakehouse.settings.lake}/{table.name}"
    version = _version(path, history)
    found = Verified(table.name, version, history.high, left_out=what.left_out, notes=what.notes)
    if not what.days:
        return found
    size = bytes_of(path)
    lakehouse.log(
        f"{table.name}: loading {counted(len(what.days), 'day')} from the source takes about "
        f"{size_text(size)} below {scratch_path}"
    )
    with scratch_lake(scratch_path, lakehouse.now(), size, lakehouse.log) as folder:
        scratch = lakehouse.in_lake(folder)
        notes = reload(scratch, what, view)
        lakehouse.log(f"{table.name}: version {version} is compared with the rebuild")
        with _comparing(lakehouse, table, [path, f"{folder}/{table.name}"]) as session:
            rows = _lines_compared(session, what, (path, version), f"{folder}/{table.name}", days)
    if rows.not_judged:
        notes.append(f"not compared: {counted(rows.not_judged, 'row')} no longer at the source")
    notes = [*found.notes, *notes, *_makers(history, rows)]
    return replace(found, rows=rows, notes=tuple(notes), rebuilt={table.name: len(what.days)})


def _lines_compared(
    session: SparkSession, what: Reload, at: tuple[str, int], again: str, days: DayRange | None
) -> Compared:
    """Bronze at a path and version against what was loaded again."""
    day = "_landing_day"
    selection = (
        RowSelection(days, tuple(what.left_out), files=what.files) if what.dated else RowSelection()
    )
    real = with_lines(table_rows(session, *at, selection, day))
    rebuilt = with_lines(rebuilt_rows(session, again, real, selection, day))
    if not what.hashed:
        return compare(real, rebuilt, by_line(real))
    real = as_hashed(real.where(f"{day} IS NOT NULL"), dated=True)
    return compare(real, as_hashed(rebuilt, dated=what.dated), by_hash(dated=what.dated))


@dataclass(frozen=True)
class _Fixed:
    """The lake at one moment: the ledger, and the versions of the tables that go with it."""

    view: LedgerView
    versions: Mapping[str, int]
    quarantine: int | None


def _made_of(table: Table) -> list[Table]:
    """All tables above this one, and itself."""
    above = {each.name: each for read in table.upstreams for each in _made_of(read.table)}
    return [*above.values(), table]


def _view(lakehouse: Lakehouse) -> LedgerView:
    """The ledger, without creating one."""
    if open_table(ledger_path(lakehouse.settings.lake)) is None:
        return LedgerView(None)
    return lakehouse.ledger.view()


def _require_loaded(table: Table, history: TableHistory, days: DayRange | None) -> None:
    loaded = history.last_committed
    if not loaded:
        raise DefinitionError(
            f"{table.name} was never loaded, so there is nothing to verify; run it."
        )
    if days is not None and not any(day in days for day in loaded):
        raise DefinitionError(f"{table.name} has none of the days {days}; it has {named(loaded)}.")


def _fixed(lakehouse: Lakehouse, table: Table, scope: VerifyScope, view: LedgerView) -> _Fixed:
    lake = lakehouse.settings.lake
    versions = {
        each.name: _version(f"{lake}/{each.name}", view.table(each.name))
        for each in (*scope.bronze, table)
        if view.table(each.name).committed
    }
    quarantine = open_table(quarantine_path(lakehouse.settings, table))
    return _Fixed(view, versions, None if quarantine is None else quarantine.version())


def _version(path: str, history: TableHistory) -> int:
    """The version of a table that holds just what the ledger knew when it was read.

    The newest, unless a batch was published since: what else is committed changes no row.
    """
    there = open_table(path)
    if there is None:
        return version_of(path)  # which raises with what is wrong
    published = there.transaction_version(history.table) or 0
    if published <= history.outcomes[-1].batch:
        version: int = there.version()
        return version
    known = (e.target_version for e in history.committed if e.target_version is not None)
    return max(known, default=0)


def _log_scope(lakehouse: Lakehouse, table: Table, scope: VerifyScope, view: LedgerView) -> None:
    for part in scope.parts:
        of = len(view.table(part.table.name).last_committed)
        what = f"{len(part.days)} of {of} days" if len(part.days) < of else f"all {of} days"
        lakehouse.log(f"{table.name}: {part.table.name} is rebuilt, {what}")


def _bytes(lakehouse: Lakehouse, part: TableDays) -> int:
    path, loaded = f"{lakehouse.settings.lake}/{part.table.name}", set(part.days)
    return bytes_of(path, None if part.table.write.recomputes_keys else loaded)


def _compared(
    lakehouse: Lakehouse,
    scratch: Lakehouse,
    table: Table,
    scope: VerifyScope,
    fixed: _Fixed,
    found: Verified,
    days: DayRange | None,
) -> Verified:
    """Rebuild the parts of the scope, and compare the table with its rebuild."""
    notes, history = list(found.notes), fixed.view.table(table.name)
    clone_bronze(lakehouse, scratch, scope.bronze, fixed.view, fixed.versions)
    for part in scope.parts:
        notes += rebuild(scratch, part, fixed.view)
    selection = _selection(table, scope, days)
    path = f"{lakehouse.settings.lake}/{table.name}"
    again = f"{scratch.settings.lake}/{table.name}"
    lakehouse.log(f"{table.name}: version {found.version} is compared with the rebuild")
    with _comparing(lakehouse, table, [path, again]) as session:
        real = table_rows(session, path, found.version, selection, "dt")
        rebuilt = rebuilt_rows(session, again, real, selection, "dt")
        rows = compare(real, rebuilt, by_key(table, real, rebuilt))
        quarantine, more = quarantine_compared(
            session, lakehouse, scratch, table, history, fixed.quarantine, selection
        )
    notes += [*more, *_makers(history, rows, quarantine)]
    rebuilt_days = {part.table.name: len(part.days) for part in scope.parts}
    return replace(
        found, rows=rows, quarantine=quarantine, notes=tuple(notes), rebuilt=rebuilt_days
    )


@contextmanager
def _comparing(lakehouse: Lakehouse, table: Table, paths: Sequence[str]) -> Iterator[SparkSession]:
    """A session for comparing; what goes wrong in Spark is a LakeError."""
    try:
        with own_session(
            lakehouse.spark(), size_of(0, [bytes_of(path) for path in paths])
        ) as session:
            yield session
    except SPARK_ERRORS as error:
        raise LakeError(
            f"{table.name} could not be compared: Spark failed: {what_failed(error)}. Nothing was "
            "changed; run again, and if it fails again, investigate this error."
        ) from error


def _selection(table: Table, scope: VerifyScope, days: DayRange | None) -> RowSelection:
    """The days to compare. Rows of recomputed keys are on days of their own, which none holds."""
    except_days = () if table.write.recomputes_keys else tuple(scope.left_out)
    return RowSelection(days, except_days, scope.before)


def _makers(history: TableHistory, *found: Compared) -> list[str]:
    """Which batch made the days that differ: it may have been made by older code."""
    days = sorted({d.day for each in found for d in each.days if d.differences and d.day})
    last = {t.day: e for e in history.committed for t in e.touched} | dict(history.last_committed)
    return [
        f"{day} was last loaded by batch {last[day].batch}, at "
        f"{last[day].recorded_at:%Y-%m-%d %H:%M:%S} UTC, by code version "
        f"{last[day].code_version or 'unknown'}: {last[day].why}"
        for day in days[:_NAMED_DAYS]
        if day in last
    ]
