"""The events of a change log, or the changes between snapshots, read from bronze's payloads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from incremental_assets.changes.debezium import UNKNOWN_OPERATION, envelopes
from incremental_assets.changes.flat_log import FlatLog
from incremental_assets.changes.lacking import Lacking
from incremental_assets.changes.log_position import (
    POSITION_KINDS,
    kind_counts,
    settle_position_kind,
    with_positions,
)
from incremental_assets.changes.log_sequence import (
    sequence_kind,
    sequence_number,
    settle_sequence_kind,
)
from incremental_assets.changes.operations import operation_of
from incremental_assets.changes.soft_deletes import deletes, is_marked
from incremental_assets.changes.unchanged import (
    IS_WHOLE,
    NOTHING,
    is_whole,
    marked,
    marked_fields,
    without,
)
from incremental_assets.delta.columns import CHANGED_AT, DELETED, LACKS, OPERATION, ORDER, WITHIN
from incremental_assets.frames import Frames
from incremental_assets.sources.payloads import MESSAGE
from incremental_assets.typed_text import instant

REASON, EVENT = "_reason", "_event"
NO_TIME = "change_time_missing"


@dataclass(frozen=True)
class Events:
    """Bronze rows as changes of rows.

    `payload` is the row that each is about, `_event` what landed; `_operation` is upsert, delete
    or truncate (null if unknown), `_deleted` whether it takes rows away, `_order` (and `_within`)
    its position, `_changed_at` when it happened, `_reason` why there is no operation or position.
    What a log states of itself is left out. `kind` is the kind of positions, for the loads to come.
    `lacking` is about events that lack fields which did not change; then each has `_lacks` and
    `_is_whole` (see `unchanged`). None where there are none.
    """

    rows: DataFrame
    order: tuple[str, ...]
    kind: str | None
    lacking: Lacking | None = None


def snapshot_events(rows: DataFrame) -> Events:
    """Changes at midnight of the snapshot's landing day; a line without a key came as an insert.

    What a damaged snapshot carried forward only is no change.
    """
    word = F.col(OPERATION)
    found = rows.where(word != "carried").withColumns(
        {
            OPERATION: F.when(word == "delete", F.lit("delete")).otherwise(F.lit("upsert")),
            DELETED: word == "delete",
            ORDER: F.col("_landing_day").cast("timestamp_ltz"),
            CHANGED_AT: F.col("_landing_day").cast("timestamp_ltz"),
            REASON: F.lit(None).cast("string"),
            EVENT: F.col("payload"),
        }
    )
    return Events(found, (ORDER,), None)


def debezium_events(
    frames: Frames, rows: DataFrame, log: FlatLog, key: Sequence[str], kind: Any, table: str
) -> Events:
    """Debezium's envelopes. Raises SourceError where positions of two kinds meet."""
    if MESSAGE in rows.columns:
        rows = rows.withColumn("_key", F.try_variant_get(MESSAGE, "$.key", "variant"))
    found = frames.cache(envelopes(rows, key, log.time, log.placeholder))
    counted = found.agg(
        *(c.alias(name) for name, c in kind_counts().items()),
        marked_fields(found).alias(LACKS),
    ).collect()[0]
    counts = {name: counted[name] for name in POSITION_KINDS}
    settled = settle_position_kind(counts, kind, table)
    rows = with_positions(found, settled).where(f"{OPERATION} IS NULL OR {OPERATION} != 'ignore'")
    lost = (F.col(OPERATION).isNotNull()) & F.col(ORDER).isNull()
    reason = F.coalesce(F.col(REASON), F.when(lost, F.lit("log_position_missing")))
    rows = rows.withColumns(
        {
            REASON: F.when(F.col("_raw").isNull(), reason),
            DELETED: F.coalesce(F.col(OPERATION).isin("delete", "truncate"), F.lit(False)),
            EVENT: F.col("payload"),
        }
    )
    rows = rows.withColumn("payload", F.col("_row"))
    rows = rows.drop("_row", "_snapshot", "_position_kind", "_op_word")
    lacking = Lacking.of(log, counted[LACKS])
    rows = rows if lacking is not None else rows.drop(LACKS, IS_WHOLE)
    return Events(rows, (ORDER, WITHIN), settled, lacking)


def _fields(rows: DataFrame, log: FlatLog) -> DataFrame:
    fields = F.col("payload").try_cast("map<string,variant>")
    rows = rows.withColumn("_all", fields)
    parts = {"_op_word": log.deleted or log.operation, "_position": log.sequence}
    texts = {
        alias: F.try_element_at("_all", F.lit(name)).try_cast("string")
        for alias, name in parts.items()
    }
    at = F.try_element_at("_all", F.lit(log.time)).try_cast("string")
    texts[CHANGED_AT] = instant(at) if log.time else F.lit(None).cast("timestamp_ltz")
    own = F.map_filter("_all", lambda name, _: ~name.isin(list(parts.values())))
    payload = F.col("payload") if log.deleted else F.to_variant_object(own)
    rows = rows.withColumns({**texts, EVENT: F.col("payload"), "payload": payload}).drop("_all")
    if not log.may_lack_fields:
        return rows
    lacks = marked(F.col("payload"), log.placeholder) if log.placeholder else F.expr(NOTHING)
    rows = rows.withColumn(LACKS, lacks)
    return rows.withColumns(
        {
            "payload": without(F.col("payload"), F.col(LACKS)),
            IS_WHOLE: F.lit(False) if log.deleted else is_whole(F.col("_op_word")),
        }
    )


def flat_log_events(frames: Frames, rows: DataFrame, log: FlatLog, kind: Any) -> Events:
    """Rows with an operation and a sequence. Raises SourceError where two kinds of these meet."""
    found = frames.cache(_fields(rows, log))
    position = F.col("_position")
    counted = found.agg(
        F.collect_set(sequence_kind(position)).alias("kinds"), marked_fields(found).alias(LACKS)
    ).collect()[0]
    settled = settle_sequence_kind(counted["kinds"], kind, log.sequence)
    rows = found.withColumns(
        {
            OPERATION: operation_of(F.col("_op_word"), log.operations),
            **(deletes(is_marked(F.col("_op_word"))) if log.deleted else {}),
            ORDER: sequence_number(position, settled or "number", StringType()),
        }
    ).where(f"{OPERATION} IS NULL OR {OPERATION} != 'ignore'")
    unread = F.when(position.isNull(), F.lit(f"{log.sequence}_null")).otherwise(
        F.lit(f"{log.sequence}_unreadable")
    )
    reason = F.when(F.col(OPERATION).isNull(), F.lit(UNKNOWN_OPERATION)).when(
        F.col(ORDER).isNull(), unread
    )
    rows = rows.withColumns(
        {
            REASON: F.when(F.col("_raw").isNull(), reason),
            DELETED: F.coalesce(F.col(OPERATION).isin("delete", "truncate"), F.lit(False)),
        }
    )
    lacking = Lacking.of(log, counted[LACKS])
    if lacking is not None:
        of_upserts = F.when(F.col(OPERATION) == "upsert", F.col(LACKS))
        rows = rows.withColumn(LACKS, F.coalesce(of_upserts, F.expr(NOTHING)))
    elif LACKS in rows.columns:
        rows = rows.drop(LACKS, IS_WHOLE)
    order = (ORDER, WITHIN) if log.deleted else (ORDER,)
    return Events(rows.drop("_op_word", "_position"), order, settled, lacking)


def marked_events(rows: DataFrame, deleted: str, at: Column, without: Column) -> Events:
    """Rows by the instant of their last change, `at`, of which a column marks those deleted.

    `without` is the reason of those that have no such instant.
    """
    fields = F.col("payload").try_cast("map<string,variant>")
    marker = F.try_element_at(fields, F.lit(deleted)).try_cast("string")
    found = rows.withColumns(
        {
            **deletes(is_marked(marker)),
            ORDER: at,
            CHANGED_AT: at,
            REASON: F.when(at.isNull() & F.col("_raw").isNull(), without),
            EVENT: F.col("payload"),
        }
    )
    return Events(found, (ORDER, WITHIN), None)


def reasons_of(reasons: Column, key: Sequence[str]) -> Column:
    """Why an event is quarantined; a delete needs key and position, and breaks no further rule.

    `reasons` are those of a row that stays.
    """
    nothing = F.array().cast("array<string>")
    keys = [F.when(F.col(name).isNull(), F.lit(f"{name}_null")) for name in key]
    no_key = F.array_except(F.array(*keys), F.array(F.lit(None).cast("string")))
    why = F.col(REASON)
    return (
        F.when(F.col("_raw").isNull() & why.isNotNull(), F.array(why))
        .when(F.col(OPERATION) == "truncate", nothing)
        .when(F.col(DELETED), no_key)
        .when(F.col("_raw").isNotNull(), reasons)
        .otherwise(F.array_union(no_key, reasons))
    )
