"""Where the rows of a typed table go: destination, change set, and what a rebuild covers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from incremental_assets.changes.lacking import with_partial
from incremental_assets.changes.truncates import (
    deletes_after,
    earlier_truncates,
    is_truncate,
    known_events,
)
from incremental_assets.changes.unchanged import IS_WHOLE
from incremental_assets.delta.columns import (
    BATCH,
    CHANGED_AT,
    DELETED,
    HASH,
    LACKS,
    LINEAGE,
    OPERATION,
)
from incremental_assets.delta.delta_table import (
    add_columns,
    columns_of,
    field_of,
    open_table,
    version_of,
)
from incremental_assets.delta.literals import sql_days
from incremental_assets.delta.merge import join_by_key
from incremental_assets.delta.read import DataFile, read_version
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.delta.writable import require_plain_writes
from incremental_assets.engine.batch import Batch
from incremental_assets.engine.bronze_rows import all_rows, contract_of, days_as_shown
from incremental_assets.engine.typed import Typed, typed
from incremental_assets.engine.whole_days import stage_whole_days
from incremental_assets.frames import Frames, quoted, with_columns
from incremental_assets.quality.contract import UNDECLARED, Contract
from incremental_assets.quality.gate import Counted
from incremental_assets.row_hash import row_hash
from incremental_assets.table import Table
from incremental_assets.writes.destination import ChangeSet, Destination
from incremental_assets.writes.strategy import require_completed

_IS_TRUNCATE = f"{OPERATION} = 'truncate'"
_GOOD = "size(_reasons) = 0"


def stage_good(
    frames: Frames, batch: Batch, read: Typed, counted: Counted, days: Sequence[date]
) -> StagedWrite:
    """Stage the good rows of these days, as the table is written."""
    table = batch.table
    # The columns of an interval are the load's own, whatever the feed calls so.
    own = table.write.validity
    known = [name for name in columns_of(batch.path) if name not in own]
    fields = [name for name in counted.fields if name.lower() not in own]
    grown = contract_of(table).grown(fields, known)
    good = read.rows.where(f"dt IN ({sql_days(days)}) AND {_GOOD}")
    rows = sum(gate.rows - gate.quarantined for day, gate in counted.days.items() if day in days)
    changes = replace(_change_set(good, batch, read, grown), count=rows)
    if _keeps_positions(table):
        _ensure_columns(batch, changes, read.order)
        changes = replace(changes, rows=frames.cache(changes.rows))
    to = _destination(batch, read.order, days)
    require_completed(table.write, table.name, changes)
    if batch.work.mode == "rebuild":
        if table.write.by_key and table.day is None:
            return _rebuilt(frames, batch, read, to, days, grown)
        return stage_whole_days(frames, table.write, to, changes)
    if table.has_truncates:
        truncated = bool(counted.flags.get("truncates"))
        changes = _with_truncates(frames, to, changes, truncated=truncated)
    return table.write.stage(frames, to, changes)


def _keeps_positions(table: Table) -> bool:
    """Whether rows carry a position that is none of their own columns."""
    return table.log is not None or table.write.keeps_versions


def _destination(batch: Batch, order: tuple[str, ...], days: Sequence[date]) -> Destination:
    table, positioned = batch.table, _keeps_positions(batch.table)

    def may_hold(file: DataFile) -> bool:
        return table.day is None or file.partition["dt"] in days

    there = open_table(batch.path)
    text = there.schema().to_json() if there is not None else '{"type":"struct","fields":[]}'
    own = table.write.validity
    schema = StructType.fromJson(json.loads(text))
    types = {f.name: f.dataType for f in schema.fields if f.name not in own and f.name[0] != "_"}
    return Destination(
        table.name,
        batch.path,
        batch.number,
        (*table.key, "dt") if table.day is not None else table.key,
        order,
        ("dt",),
        types,
        first_by="" if table.day is not None or table.write.appends else "dt",
        valid_time=CHANGED_AT if table.write.by_event_time else "",
        days=tuple(days),
        keep=may_hold,
        counted_by="" if positioned else "dt",
        tombstones=positioned,
        truncates=table.has_truncates,
        hidden=("dt", *LINEAGE, CHANGED_AT),
        lineage=("dt", *LINEAGE),
    )


def _change_set(rows: DataFrame, batch: Batch, read: Typed, grown: Sequence[str]) -> ChangeSet:
    """Own and grown columns, the day, lineage, order, hash, and what is done to the row."""
    order = read.order
    own = [n for n in rows.columns if not n.startswith("_") and n != "dt"]
    new = [name for name in grown if name.lower() not in {n.lower() for n in own}]
    rows = with_columns(rows, {name: Contract.undeclared(name, rows) for name in new})
    types = {f.name: f.dataType for f in rows.schema.fields if f.name in {*own, *new}}
    time = [CHANGED_AT] if batch.table.write.by_event_time else []
    what = [name for name in (OPERATION, DELETED) if name in rows.columns]
    hashed, lacks = row_hash(types), list[str]()
    if read.lacking is not None:
        of_new = {n: F.array_contains(UNDECLARED, n) for n in new}
        rows = rows.withColumn(LACKS, read.lacking.lacked(new, of_new))
        hashed, lacks = read.lacking.hashed(types), [LACKS, IS_WHOLE]
    names = dict.fromkeys(("dt", *own, *new, *LINEAGE, *time, *order[:-1], *what, *lacks))
    rows = rows.select(*map(quoted, names), hashed.alias(HASH))
    if lacks:  # a field that is no column may become one
        never = _never_columns(batch, read)
        rows = rows.withColumn(LACKS, F.filter(LACKS, lambda name: ~name.isin(never)))
    rows = with_partial(rows, read.lacking, types, order, columns_of(batch.path))
    hidden = {*order, DELETED, OPERATION} - set(own)
    kinds = {f.name: f.dataType for f in rows.schema.fields if f.name not in hidden}
    return ChangeSet(rows, kinds, OPERATION in what)


def _never_columns(batch: Batch, read: Typed) -> list[str]:
    """The fields that are marked as unchanged in some event and never become columns."""
    contract, marked = contract_of(batch.table), read.lacking.marked if read.lacking else ()
    return [n for n in marked if n not in contract.columns and contract.of_new(n) != "evolve"]


def _ensure_columns(batch: Batch, changes: ChangeSet, order: Sequence[str]) -> None:
    """Give the table the columns that it lacks: versions are looked up in all of them."""
    rows, table = changes.rows.schema, batch.table
    columns = [StructField(BATCH, LongType())]
    columns += [rows[name] for name in dict.fromkeys((*changes.own, *order))]
    at = rows[CHANGED_AT if table.write.by_event_time else order[0]].dataType
    columns += map(StructField, table.write.validity, (at, at, BooleanType()))
    there = open_table(batch.path)
    if there is not None:
        require_plain_writes(there, batch.path)
    add_columns(batch.path, [field_of(column) for column in columns])


def _rebuilt(
    frames: Frames,
    batch: Batch,
    read: Typed,
    to: Destination,
    days: Sequence[date],
    grown: Sequence[str],
) -> StagedWrite:
    """Rebuild every key that these days hold, or held before they were repaired.

    Other days may hold more of a key, so that it is read from all of bronze, as far as each day's
    gate has let it pass; and of days whose rows bronze has replaced meanwhile, from what the table
    holds. What another day has published stays, whatever the rules of today are.
    """
    session, here = frames.session, f"dt IN ({sql_days(days)})"
    shown = days_as_shown(batch, days)
    carried_forward = f"dt IN ({sql_days(shown)})" if shown else ""
    key = [quoted(name) for name in to.key]
    every = typed(frames, all_rows(session, batch, days), batch, whole=True)
    changes = _change_set(every.rows.where(_GOOD), batch, every, grown)
    if every.lacking is not None or read.lacking is not None:
        # By what the events lack, those of these days were judged by what was known then.
        own = _change_set(read.rows.where(f"{here} AND {_GOOD}"), batch, read, grown)
        rows = changes.rows.where(f"NOT ({here})")
        rows = rows.unionByName(own.rows, allowMissingColumns=True)
        changes = ChangeSet(rows, {**own.own, **changes.own}, changes.deletes)
    events = frames.cache(changes.rows)
    table_now = read_version(session, batch.path, version_of(batch.path))
    superseded = to.superseded(session) if to.tombstones else None
    touched = events.where(here).select(*key)
    touched = touched.unionByName(table_now.where(here).select(*key))
    if superseded is not None:
        touched = touched.unionByName(superseded.where(here).select(*key))
    truncates = events.where(_IS_TRUNCATE) if OPERATION in events.columns else None
    if truncates is not None and _any(
        truncates.where(here),
        None if superseded is None else superseded.where(f"{is_truncate(to.key)} AND {here}"),
    ):
        touched = events.select(*key).unionByName(table_now.select(*key))
    if truncates is not None:  # a truncate is of no key
        touched = touched.where(f"{key[0]} IS NOT NULL")
    touched = touched.distinct()
    events = events.unionByName(_as_published(table_now, events, touched, to, f"NOT ({here})"))
    wanted = events.join(touched, list(to.key), "left_semi")
    if truncates is not None and batch.table.has_truncates:
        upserts = wanted.where(f"{OPERATION} = 'upsert'")
        positions = _positions(truncates, to)
        before = earlier_truncates(superseded, to.key, positions.columns)
        if before is not None and carried_forward:
            positions = positions.unionByName(before.where(carried_forward)).distinct()
        deletes = deletes_after(upserts, positions, to.key, to.order)
        wanted = wanted.unionByName(deletes, allowMissingColumns=True)
        wanted = wanted.unionByName(truncates.where(here))
    found = ChangeSet(frames.cache(wanted), changes.own, changes.deletes)
    return batch.table.write.rebuild(frames, to, found, touched, here, carried_forward)


def _as_published(
    table_now: DataFrame, events: DataFrame, keys: DataFrame, to: Destination, elsewhere: str
) -> DataFrame:
    """The table's rows of these keys on other days that are not among the events, as events."""
    there = table_now.where(elsewhere).join(keys, list(to.key), "left_semi")
    same = list(dict.fromkeys((*to.key, "dt", *to.position)))
    left = join_by_key(there, events.selectExpr(*map(quoted, same)), same, "left_anti", nulls=True)
    given = {OPERATION: F.lit("upsert"), DELETED: F.lit(False)}
    columns = [
        F.col(quoted(f.name))
        if f.name in left.columns
        else given.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name)
        for f in events.schema.fields
    ]
    return left.select(*columns)


def _with_truncates(
    frames: Frames, to: Destination, changes: ChangeSet, *, truncated: bool
) -> ChangeSet:
    """The changes, and the deletes that truncates make of their keys; of new ones, of every key."""
    rows, session = changes.rows, frames.session
    came = _positions(rows.where(_IS_TRUNCATE), to)
    superseded = to.superseded(session)
    before = earlier_truncates(superseded, to.key, came.columns)
    if before is not None and not _any(before):
        before = None
    if before is not None or truncated:
        every = came if before is None else came.unionByName(before)
        upserts = rows.where(f"{OPERATION} = 'upsert'")
        deletes = deletes_after(upserts, every.distinct(), to.key, to.order)
        if truncated:
            shown = read_version(session, to.path, version_of(to.path))
            known = known_events(shown, superseded, to.key, to.order)
            deletes = deletes.unionByName(deletes_after(known, came, to.key, to.order))
        rows = rows.unionByName(deletes, allowMissingColumns=True)
    return replace(changes, rows=frames.cache(rows))


def _positions(truncates: DataFrame, to: Destination) -> DataFrame:
    """The log positions of truncates, their times, and the days that they came on."""
    time = [to.valid_time] if to.valid_time else []
    return truncates.select(*to.position, *time, "dt").distinct()


def _any(*found: DataFrame | None) -> bool:
    return any(rows is not None and bool(rows.limit(1).collect()) for rows in found)
