"""Typed events that lack columns which did not change, judged with the values before them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.changes.bronze_events import REASON, Events
from incremental_assets.changes.lacking import (
    Lacking,
    judged_again,
    with_side_rows,
)
from incremental_assets.changes.unchanged import (
    NO_EARLIER,
    NO_EARLIER_FLAG,
    NOT_TRANSFORMED,
)
from incremental_assets.delta.columns import DELETED, HASH, LACKS, ORDER
from incremental_assets.delta.delta_table import open_table, version_of
from incremental_assets.delta.literals import sql_days
from incremental_assets.delta.read import plain_files, read_files
from incremental_assets.delta.side_table import side_rows, side_table_of
from incremental_assets.engine.batch import Batch
from incremental_assets.engine.bronze_rows import all_rows, contract_of
from incremental_assets.engine.scope import scope_of
from incremental_assets.frames import Frames
from incremental_assets.quality.contract import ABSENT, EXPECTED, FURTHER
from incremental_assets.quality.reasons import prepared, with_reasons
from incremental_assets.quality.rule import HELPER
from incremental_assets.table import Table

_LAST = "~"
"""A hash after all others: of events at one position, those of the batch come last."""


@dataclass(frozen=True)
class Lacks:
    """Events that may lack fields which did not change, and what the table knows of their keys."""

    frames: Frames
    events: Events
    known: DataFrame | None


def judged_lacking(
    rows: DataFrame, batch: Batch, lacks: Lacks, lacking: Lacking, why: Sequence[Column]
) -> DataFrame:
    """Typed events that may lack columns, judged with the values of the events before."""
    table, session, order = batch.table, rows.sparkSession, (*lacks.events.order, HASH)
    columns = lacking.columns(list(contract_of(table).columns), table.key)
    rows = with_lacked(rows, lacking, columns).withColumn(HASH, F.lit(_LAST))
    replaced = batch.work.mode == "rebuild"
    reasons = [*why, *_lacking_reasons(batch.table, lacking)]

    if table.transform is not None:  # all that lack columns are bad
        rows = with_expected_texts(table.transform(rows), rows)
        rows = prepared(rows, table.rules, scope_of(session, batch, "_day", replaced=replaced))
        return with_reasons(rows, table.rules, reasons)

    def judged(rows: DataFrame) -> DataFrame:
        rows = rows.drop(*(name for name in rows.columns if name.startswith(HELPER)))
        rows = prepared(rows, table.rules, scope_of(session, batch, "_day", replaced=replaced))
        return with_reasons(rows, table.rules, reasons)

    return judged_again(
        *(lacks.frames, rows, lacks.known, table.key, order, columns, judged),
        latest_alone=table.write.keeps_latest and not replaced,
    )


def with_lacked(rows: DataFrame, lacking: Lacking, columns: Sequence[str]) -> DataFrame:
    """Typed events with the names of the columns that they lack."""
    has_field = {name: ~F.array_contains(ABSENT, name) for name in columns}
    return rows.withColumn(LACKS, lacking.lacked(columns, has_field))


def _lacking_reasons(table: Table, lacking: Lacking) -> list[Column]:
    """Why an event is quarantined that lacks fields.

    A transform is of rows: it would make columns of a value that is not there.
    """
    if table.transform is not None:
        return [F.when(F.size(LACKS) > 0, F.lit(NOT_TRANSFORMED))]
    if not lacking.asks_for_earlier:
        return []
    return [F.when(F.col(NO_EARLIER_FLAG), F.lit(NO_EARLIER))]


def known_elsewhere(
    frames: Frames, batch: Batch, events: Events, kind: str | None, *, whole: bool
) -> DataFrame | None:
    """What is known of keys from elsewhere, for events that lack columns.

    The table has what was published; of days that are rebuilt, bronze has the other events.
    """
    lacking, table = events.lacking, batch.table
    if lacking is None or whole or table.log is None:
        return None
    if batch.work.mode != "rebuild":
        return known_versions(frames, batch)
    elsewhere = f"NOT _day IN ({sql_days(batch.work.days)})"
    landed = all_rows(frames.session, batch, ()).where(elsewhere)
    found = table.log.events(frames, landed, table.key, kind, table.name)
    readable = found.rows.where(F.col(ORDER).isNotNull() & F.col(REASON).isNull())
    rows = contract_of(table).apply(readable)
    if found.lacking is None:
        return rows
    return with_lacked(rows, found.lacking, list(contract_of(table).columns))


def known_versions(frames: Frames, batch: Batch) -> DataFrame | None:
    """What the table and its side table know of its keys, with `_deleted`; None before there is."""
    table = plain_files(batch.path, version_of(batch.path)) if open_table(batch.path) else None
    if table is None or not table.files:
        return None
    rows = read_files(frames.session, table, table.files).withColumn(DELETED, F.lit(False))
    side = side_rows(frames.session, side_table_of(batch.path))
    return with_side_rows(rows, side, latest_alone=batch.table.write.keeps_latest)


def with_expected_texts(transformed: DataFrame, before: DataFrame) -> DataFrame:
    """Transformed rows; where the transform dropped expected texts, the payload is needed."""
    if {EXPECTED, FURTHER} & set(before.columns) <= set(transformed.columns):
        return transformed
    return transformed.withColumn(FURTHER, F.lit(True))
