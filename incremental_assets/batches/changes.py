"""Writing changes into a silver table: inserts, updates and deletes, merged or kept as history.

The table is an intake whose source is bronze: the same merge, history and delete markers as where
a source is loaded straight into a table. What the table does not show (deletes, truncates, losers
by hash alone) lies beside it with its day, so that a day that is restated takes its own away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from pyspark.sql import DataFrame, SparkSession

from incremental_assets.batches.batch import Batch
from incremental_assets.batches.events import OPERATION
from incremental_assets.batches.typed import Typed, all_rows, days_as_shown, typed
from incremental_assets.changes.by_log import ChangeLog
from incremental_assets.changes.by_timestamp import Timestamp
from incremental_assets.changes.row_hash import row_hash
from incremental_assets.frames import persisted, quoted
from incremental_assets.intake.found import Found, Position
from incremental_assets.intake.intake import CHANGED_AT, HASH, ORDER, WITHIN, Intake
from incremental_assets.intake.rewrite import rewrite
from incremental_assets.intake.target import Target, ensure_columns
from incremental_assets.intake.truncates import (
    deletes_after,
    is_truncate,
    known_events,
    truncates_beside,
)
from incremental_assets.intake.write import write
from incremental_assets.lake.beside import delete_beside
from incremental_assets.lake.history import DELETED
from incremental_assets.lake.literals import sql_days
from incremental_assets.lake.merge import Merged
from incremental_assets.lake.strategy import SCD2, Merge
from incremental_assets.quality.contract import Contract
from incremental_assets.sources.stored import StoredSource
from incremental_assets.table import Table

_IS_TRUNCATE = f"{OPERATION} = 'truncate'"
_LINEAGE = ("_landing_day", "_file")


def intake_of(table: Table, lake: str, order: tuple[str, ...]) -> Intake:
    """The table as an intake: its keys, its order, how it is written, what lies beside it."""
    write_as = table.write
    assert isinstance(write_as, Merge | SCD2)  # others are refused over a log or a history
    if isinstance(write_as, SCD2):
        own = (*write_as.ignore_changes_in, "dt", *_LINEAGE, CHANGED_AT)
        write_as = replace(write_as, ignore_changes_in=own)
    log = table.log is not None
    changes = ChangeLog.debezium() if WITHIN in order else ChangeLog() if log else Timestamp(ORDER)
    return Intake(
        table.name,
        StoredSource(f"{lake}/{table.upstreams[0].table.name}"),
        f"{lake}/{table.name}",
        f"{lake}/_ledger",
        changes,
        write_as,
        table.key,
        ("dt",),
        first_by="dt",
    )


def write_changes(
    session: SparkSession,
    batch: Batch,
    rows: Typed,
    days: Sequence[date],
    grown: Sequence[str],
    *,
    truncated: bool,
) -> Merged:
    """Stage what the table holds once these days' changes are merged into it."""
    intake = intake_of(batch.table, batch.settings.lake, rows.order)
    good = rows.rows.where(f"dt IN ({sql_days(days)}) AND size(_reasons) = 0")
    changes = _columns(good, intake, batch, grown)
    found = _found(changes, rows)
    ensure_columns(intake, found)
    target = Target.of(intake, None, None)
    if batch.work.mode == "rebuild":
        return _anew(session, batch, intake, target, days, grown)
    if isinstance(batch.table.log, ChangeLog):
        changes = _with_truncates(session, intake, target, changes, truncated=truncated)
    with persisted(changes) as kept:
        return write(session, intake, target, _found(kept, rows), batch.number).merged


def supersede_beside(table: Table, lake: str, batch: int, days: Sequence[date]) -> None:
    """Drop what earlier batches kept beside the table of days that `batch` has restated."""
    if days:
        path = f"{lake}/{table.name}/_beside"
        delete_beside(path, f"dt IN ({sql_days(days)}) AND _batch < {batch}")


def _anew(
    session: SparkSession,
    batch: Batch,
    intake: Intake,
    target: Target,
    days: Sequence[date],
    grown: Sequence[str],
) -> Merged:
    """Derive anew every key that these days hold, or held before they were repaired.

    What other days say of a key counts as well, as far as it was judged; of days whose rows bronze
    has replaced meanwhile, what the table holds.
    """
    here = f"dt IN ({sql_days(days)})"
    shown = days_as_shown(batch, days)
    held = f"dt IN ({sql_days(shown)})" if shown else ""
    key = [quoted(name) for name in intake.key]
    with typed(all_rows(session, batch, days), batch) as every:
        good = every.rows.where("size(_reasons) = 0")
        with persisted(_columns(good, intake, batch, grown)) as events:
            keys = events.where(here).select(*key)
            keys = keys.unionByName(target.read(session, intake.target).where(here).select(*key))
            for beside in target.side(session, intake.beside):
                keys = keys.unionByName(beside.where(here).select(*key))
            touched = keys.distinct()
            if _has_truncates(session, intake, target, events, here):
                touched = events.select(*key).unionByName(
                    target.read(session, intake.target).select(*key)
                )
            if OPERATION in events.columns:  # a truncate is of no key
                touched = touched.where(f"{key[0]} IS NOT NULL")
            touched = touched.distinct()
            wanted = events.join(touched, list(intake.key), "left_semi")
            if isinstance(batch.table.log, ChangeLog):
                truncates = events.where(_IS_TRUNCATE)
                upserts = wanted.where(f"{OPERATION} = 'upsert'")
                places = _places(truncates, intake)
                before = truncates_beside(session, intake, target, places.columns)
                if before is not None and held:
                    places = places.unionByName(before.where(held)).distinct()
                deletes = deletes_after(upserts, places, intake)
                wanted = wanted.unionByName(deletes, allowMissingColumns=True)
                wanted = wanted.unionByName(truncates.where(here))
            with persisted(wanted) as kept:
                found = _found(kept, every)
                return rewrite(session, intake, target, found, touched, batch.number, here, held)


def _found(changes: DataFrame, rows: Typed) -> Found:
    types = {f.name: f.dataType for f in changes.schema.fields}
    hidden = {*rows.order, HASH, DELETED, OPERATION, "_reasons"}
    own = {name: kind for name, kind in types.items() if name not in hidden}
    deletes = 1 if OPERATION in types else 0
    return Found(changes, own, Position("batches", ""), 0, deletes=deletes)


def _columns(rows: DataFrame, intake: Intake, batch: Batch, grown: Sequence[str]) -> DataFrame:
    """Own and grown columns, the day, lineage, order, hash, and what is done to the row."""
    own = [n for n in rows.columns if not n.startswith("_") and n != "dt"]
    new = [name for name in grown if name.lower() not in {n.lower() for n in own}]
    rows = rows.withColumns({name: Contract.undeclared(name) for name in new}) if new else rows
    types = {f.name: f.dataType for f in rows.schema.fields if f.name in {*own, *new}}
    marks = [name for name in (OPERATION, DELETED, "_reasons") if name in rows.columns]
    places = [*([intake.clock] if intake.clock else []), *intake.order[:-1]]
    names = [quoted(name) for name in (*own, *new, "dt", *_LINEAGE, *places, *marks)]
    return rows.select(*names, row_hash(types).alias(HASH))


def _with_truncates(
    session: SparkSession, intake: Intake, target: Target, changes: DataFrame, *, truncated: bool
) -> DataFrame:
    """The changes, and the deletes that truncates make of their keys; of new ones, of every key."""
    came = _places(changes.where(_IS_TRUNCATE), intake)
    before = truncates_beside(session, intake, target, came.columns)
    if before is not None and not before.limit(1).collect():
        before = None
    if before is None and not truncated:
        return changes
    every = came if before is None else came.unionByName(before)
    upserts = changes.where(f"{OPERATION} = 'upsert'")
    deletes = deletes_after(upserts, every.distinct(), intake)
    if truncated:
        known = known_events(session, intake, target)
        deletes = deletes.unionByName(deletes_after(known, came, intake))
    return changes.unionByName(deletes, allowMissingColumns=True)


def _places(truncates: DataFrame, intake: Intake) -> DataFrame:
    """Where truncates stand in the log, and when, and the days that say them."""
    clock = [intake.clock] if intake.clock else []
    return truncates.select(*intake.order[:-1], *clock, "dt").distinct()


def _has_truncates(
    session: SparkSession, intake: Intake, target: Target, events: DataFrame, here: str
) -> bool:
    """Whether one of the days holds a truncate, or held one."""
    if OPERATION not in events.columns:
        return False
    found = [events.where(f"{_IS_TRUNCATE} AND {here}")]
    found += [
        beside.where(f"{is_truncate(intake)} AND {here}")
        for beside in target.side(session, intake.beside)
    ]
    return any(rows.limit(1).collect() for rows in found)
