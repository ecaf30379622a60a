"""Change detector for topics in which a message is the newest row of its key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets.changes.bronze_events import EVENT, REASON, Events
from incremental_assets.changes.debezium import NO_ROW
from incremental_assets.changes.debezium_message import connect_payload
from incremental_assets.changes.detector import Detector
from incremental_assets.changes.unchanged import DEBEZIUM, marked
from incremental_assets.delta.columns import CHANGED_AT, DELETED, OPERATION, ORDER
from incremental_assets.frames import Frames
from incremental_assets.sources.payloads import MESSAGE
from incremental_assets.sources.source import Source

_FIELDS = "map<string,variant>"
UNCHANGED = "field_unchanged"


@dataclass(frozen=True, slots=True)
class Upserts(Detector):
    """Of the messages of a key the last one counts: it is the row, or without a value its delete.

    For compacted topics, tables of Kafka Streams and ksqlDB, and rows that Debezium flattened and
    whose deletes are tombstones. The row has the fields of the value, and those of the key that the
    value lacks; a key that is no object is the one column of the table's key. Either may be in
    Kafka Connect's `{"schema": …, "payload": …}`. A row with `"__deleted": "true"` is a delete,
    too. Another, in which Debezium marks a field as unchanged, is quarantined: it lacks that.

    Messages are ordered by their offsets, which is an order of a key only as long as the key stays
    in its partition: a topic that was given more partitions is refused.
    """

    name: ClassVar[str] = "upserts"
    finds_deletes: ClassVar[bool] = True
    reads_once: ClassVar[bool] = True
    needs_offsets: ClassVar[bool] = True

    def reading(self, source: Source) -> Source:
        return source.with_fixed_partitions()

    def events(
        self, frames: Frames, rows: DataFrame, key: Sequence[str], kind: Any, table: str
    ) -> Events:
        """Messages as changes; `_operation` is upsert or delete, `_order` the offset."""
        return Events(_changes(rows, key), (ORDER,), None)


def _changes(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    value, of_message = F.col("payload"), F.try_variant_get(MESSAGE, "$.key", "variant")
    # Of a delete without a value the key is all that the quarantine could show.
    only_key = F.is_variant_null(value) & ~F.is_variant_null(of_message)
    event = F.when(only_key, F.to_variant_object(F.struct(of_message.alias("key")))).otherwise(
        value
    )
    rows = rows.withColumns(
        {EVENT: event, "_of_value": connect_payload(value), "_of_key": connect_payload(of_message)}
    )
    named = F.col("_of_key").try_cast(_FIELDS)
    if len(key) == 1:
        alone = F.when(~F.is_variant_null("_of_key"), F.create_map(F.lit(key[0]), F.col("_of_key")))
        named = F.coalesce(named, alone)
    rows = rows.withColumns({"_of_row": F.col("_of_value").try_cast(_FIELDS), "_of_key": named})
    own, named = F.col("_of_row"), F.col("_of_key")
    flag = F.lower(F.try_element_at(own, F.lit("__deleted")).try_cast("string"))
    ends = F.col("_raw").isNull() & (
        F.is_variant_null("_of_value") | F.coalesce(flag == "true", F.lit(False))
    )
    rest = F.map_filter(named, lambda name, _: ~F.array_contains(F.map_keys(own), name))
    both = F.coalesce(F.map_concat(rest, own), own, named)
    row = F.when(ends, both).otherwise(F.when(own.isNotNull(), both))
    rows = rows.withColumn("_row", row)
    missing = F.col("_raw").isNull() & F.col("_row").isNull()
    lacks = F.size(marked(F.col("_of_value"), DEBEZIUM)) > 0
    return rows.withColumns(
        {
            OPERATION: F.when(ends, F.lit("delete")).otherwise(F.lit("upsert")),
            DELETED: ends,
            ORDER: F.try_variant_get(MESSAGE, "$.offset", "bigint").cast("decimal(38,0)"),
            CHANGED_AT: F.try_variant_get(MESSAGE, "$.timestamp", "timestamp"),
            REASON: F.when(missing, F.lit(NO_ROW)).when(lacks & ~ends, F.lit(UNCHANGED)),
            "payload": F.to_variant_object("_row"),
        }
    ).drop("_of_value", "_of_key", "_of_row", "_row")
