"""Debezium change events, read from JSON payloads: what happened to which row, and when.

The log's order is explained in `log_position`. Two things that it cannot repair:

- Where a unique constraint is deferred, one statement can swap the keys of two rows; the log then
  has "A gets key 2, key 2 is deleted", and the same where A moved on. Key 2 is deleted.
- Values stay as the JSON has them. What only the message's schema explains is not decoded:
  `org.apache.kafka.connect.data.Decimal` is base64 of its unscaled bytes, dates and times are
  numbers since the epoch (`io.debezium.time.*`, `org.apache.kafka.connect.data.*`), MongoDB's
  are extended JSON. Set `decimal.handling.mode=string` at the connector, or decode in silver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from types import MappingProxyType

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.changes.debezium_message import (
    non_null,
    parse_variant,
    struct_type,
    unwrapped_events,
)
from incremental_assets.changes.log_position import TIMES, with_position
from incremental_assets.changes.operations import Operation, operation_of
from incremental_assets.changes.unchanged import (
    IS_WHOLE,
    NOTHING,
    is_whole,
    marked,
    values_of,
    without,
)
from incremental_assets.delta.columns import LACKS
from incremental_assets.errors import DefinitionError

NO_ENVELOPE = "no_envelope"
UNKNOWN_OPERATION = "unknown_operation"
NO_ROW = "no_row"

_MESSAGE: Mapping[str, Operation] = MappingProxyType({"m": "ignore"})
_OF_BOUNDARY = ("status", "id", "event_count", "data_collections", *TIMES)
"""The fields of the messages that begin and end a transaction."""
_STAGED = (
    *("_dbz_value", "_dbz_event", "_dbz_known", "_dbz_flat", "_dbz_meta", "_dbz_key"),
    *("_dbz_before", "_dbz_after", "_dbz_old", "_dbz_new", "_dbz_named", "_dbz_part"),
    "_dbz_known_before",
)


def envelopes(
    rows: DataFrame, key: Sequence[str], time: str = "", placeholder: str = ""
) -> DataFrame:
    """Read each payload as a Debezium event.

    Takes rows with `payload: variant` and any further columns, which stay; where there is a
    column `_raw` and it is not null, the line was no JSON and nothing is read from it; a column
    `_key: variant` is the message's key. `key` are the fields of the row that identify it. A
    payload is

    - an envelope (`before`, `after`, `source`, `op`), or a row flattened by
      ExtractNewRecordState with at least `__op` or `__deleted`;
    - either of them in Kafka Connect's `{"schema": …, "payload": …}`;
    - or a message `{"key": …, "value": …}` (kcat: `payload`) with either part wrapped or not, as
      JSON or as text that holds JSON;
    - null, by itself or as a value: a tombstone;
    - where `time` names a field: a row alone, as it was from that time on. A flattened row that
      has no position and no time of its own is ordered by it, too.

    Adds

    - `_operation: string`: upsert, delete, truncate; ignore for tombstones, messages (`m`),
      transaction boundaries, schema changes and heartbeats; null where it is not known. In a
      flattened log that has a delete as a tombstone alone, deletes are lost: set
      `delete.tombstone.handling.mode=rewrite`.
    - `_reason: string`: why there is no operation: `no_envelope`, `unknown_operation`, or `no_row`
      (an update that has no row, as MongoDB's without `change_streams_update_full`, or a
      delete without row and key); null for a `_raw` line.
    - `_op_word: string`: the operation's word, as found.
    - `_row: variant`: the row after it; for a delete the row before, or where that lacks the key,
      the key of the message.
    - `_snapshot: boolean`: the row was read by a snapshot, not changed.
    - `_position_kind: string`, `_order: decimal(38,0)`, `_within: decimal(38,0)`.
    - `_changed_at: timestamp`: when the change happened; else when the connector saw it.
    - with a `placeholder`, `_lacks: array<string>`: the fields of an upsert that are marked by it
      as unchanged, and so are not in `_row`; but for those that the row before has. And
      `_is_whole: boolean`: it is an insert or was read, so that no other field is missing.

    An update that changes the key becomes two rows at one position: the old key's delete, with the
    row before, and the upsert. Of all that has one position, a delete from a changed key
    comes before the rest, so that of two rows which swap keys there neither deletes the other. An
    update whose `before` is null or lacks the key does not name the old key: one row.
    """
    if not key:
        raise DefinitionError("A Debezium log needs the key of its rows: name at least one field.")
    raw = F.col("_raw").isNotNull() if "_raw" in rows.columns else F.lit(False)
    rows = unwrapped_events(rows, time)
    rows = rows.withColumns(_images())
    if placeholder:
        rows = _without_unchanged(rows, placeholder)
    rows = rows.withColumns(_identities(key)).withColumns(_operations(raw))
    rows = rows.withColumns(_judged(raw))
    rows = with_position(rows, _field, F.col("_snapshot"))
    rows = rows.withColumn("_dbz_part", F.explode(_parts()))
    # Events that do not count must not decide the log's kind.
    counts = F.col("_dbz_part.operation").isin("upsert", "delete", "truncate")
    unchanged, row = {}, F.col("_dbz_part.row")
    if placeholder:
        is_upsert = F.col("_dbz_part.operation") == "upsert"
        row = F.when(is_upsert, row).otherwise(without(row, marked(row, placeholder)))
        unchanged[LACKS] = F.when(is_upsert, F.col(LACKS)).otherwise(F.expr(NOTHING))
        unchanged[IS_WHOLE] = is_whole(F.col("_op_word"))
    return rows.withColumns(
        {
            **unchanged,
            "_operation": F.col("_dbz_part.operation"),
            "_row": row,
            "_position_kind": F.when(counts, F.col("_position_kind")),
            "_order": F.when(counts, F.col("_order")),
            "_within": F.when(counts, F.col("_dbz_part.within")),
        }
    ).drop(*_STAGED)


def _images() -> dict[str, Column]:
    """The row before and after, and the message's key as a row."""
    event, flat = F.col("_dbz_event"), F.col("_dbz_flat")
    fields = F.col("_dbz_value").try_cast("map<string,variant>")
    row = F.to_variant_object(F.map_filter(fields, lambda name, _: ~name.startswith("__")))
    # MongoDB's key is `id`: the document's `_id` as text in extended JSON.
    of_mongodb = event["source"]["collection"].isNotNull()
    identity = non_null(F.try_variant_get("_dbz_key", "$.id", "variant"))
    document = F.to_variant_object(F.struct(parse_variant(identity).alias("_id")))
    return {
        # MongoDB's documents are text.
        "_dbz_before": F.when(flat, row).otherwise(parse_variant(non_null(event["before"]))),
        "_dbz_after": F.when(flat, row).otherwise(parse_variant(non_null(event["after"]))),
        "_dbz_key": F.when(of_mongodb & identity.isNotNull(), document).otherwise(
            non_null(F.col("_dbz_key"))
        ),
    }


def _without_unchanged(rows: DataFrame, placeholder: str) -> DataFrame:
    """The row after the event without fields that did not change; the row before may have them."""
    after, before = F.col("_dbz_after"), F.col("_dbz_before")
    rows = rows.withColumn(LACKS, marked(after, placeholder))
    some = F.size(LACKS) > 0
    known = F.when(some, values_of(before, F.col(LACKS), placeholder))
    rows = rows.withColumn("_dbz_known_before", known)
    known = F.col("_dbz_known_before")
    lacks = F.when(some, F.array_except(LACKS, F.map_keys(known))).otherwise(F.col(LACKS))
    return rows.withColumns({"_dbz_after": without(after, F.col(LACKS), known), LACKS: lacks})


def _identities(key: Sequence[str]) -> dict[str, Column]:
    """The key of each image as text; null where a field of it is missing.

    Only an update has a new one: it alone can change the key.
    """
    is_update = F.lower(F.col("_dbz_event")["op"]) == "u"
    return {
        "_dbz_old": _identity(F.col("_dbz_before"), key),
        "_dbz_new": F.when(is_update, _identity(F.col("_dbz_after"), key)),
        "_dbz_named": _identity(F.col("_dbz_key"), key),
    }


def _identity(row: Column, key: Sequence[str]) -> Column:
    fields = row.try_cast(struct_type({name.replace("`", "``"): "variant" for name in key}))
    complete = reduce(and_, (non_null(fields[name]).isNotNull() for name in key))
    return F.when(complete, F.to_json(fields))


def _operations(raw: Column) -> dict[str, Column]:
    event, flat, known = F.col("_dbz_event"), F.col("_dbz_flat"), F.col("_dbz_known")
    word = F.when(flat, event["__op"]).when(known, event["op"])
    deleted = F.lower(event["__deleted"])
    operation = (
        F.when(raw, None)
        .when(non_null(F.col("_dbz_value")).isNull(), F.lit("ignore"))
        .when(flat & (deleted == "true"), F.lit("delete"))
        .when(flat & word.isNull() & (deleted == "false"), F.lit("upsert"))
        .when(known, operation_of(word, _MESSAGE))
        .when(_is_control(), F.lit("ignore"))
    )
    flag = F.lower(F.expr(_field("source.snapshot")))
    is_read = (F.lower(word) == "r") | ~flag.isin("false", "")
    return {
        "_op_word": F.when(~raw, word),
        "_operation": operation,
        # Only a row can have been read: the documented MongoDB delete has the flag too.
        "_snapshot": F.coalesce((operation == "upsert") & is_read, F.lit(False)),
    }


def _is_control() -> Column:
    """Transaction boundaries, schema changes and heartbeats, which have no operation."""
    event = F.col("_dbz_event")
    names = F.map_keys(F.col("_dbz_value").try_cast("map<string,variant>"))
    boundary = event["status"].isin("BEGIN", "END") & event["id"].isNotNull()
    boundary &= F.size(F.array_except(names, F.array(*(F.lit(name) for name in _OF_BOUNDARY)))) == 0
    schema_change = F.coalesce(event["ddl"], event["tableChanges"]).isNotNull()
    times = F.array(*(F.lit(name) for name in TIMES))
    heartbeat = event["ts_ms"].isNotNull() & (F.size(F.array_except(names, times)) == 0)
    return boundary | (schema_change & event["source"].isNotNull()) | heartbeat


def _judged(raw: Column) -> dict[str, Column]:
    """The operation if it has its row, the row, and the reason if there is no operation."""
    operation, before = F.col("_operation"), F.col("_dbz_before")
    of_message = F.col("_dbz_key")
    deleted_row = F.when(F.col("_dbz_old").isNotNull(), before).when(
        F.col("_dbz_named").isNotNull(), of_message
    )
    row = F.when(operation == "upsert", F.col("_dbz_after")).when(
        operation == "delete", F.coalesce(deleted_row, before, of_message)
    )
    missing = operation.isin("upsert", "delete") & row.isNull()
    unreadable = F.when(F.col("_dbz_known"), UNKNOWN_OPERATION).otherwise(NO_ENVELOPE)
    return {
        "_row": row,
        "_operation": F.when(~missing, operation),
        "_reason": F.when(missing, F.lit(NO_ROW)).when(operation.isNull() & ~raw, unreadable),
    }


def _parts() -> Column:
    """One row of an event, or two where it changes the key."""
    within = F.col("_within")
    event = _part(F.col("_operation"), F.col("_row"), within)
    # The last digit of `_within` is left for this.
    old = _part(F.lit("delete"), F.col("_dbz_before"), within - F.lit(1))
    moved = F.col("_dbz_old") != F.col("_dbz_new")
    return F.when(moved, F.array(old, event)).otherwise(F.array(event))


def _part(operation: Column, row: Column, within: Column) -> Column:
    within = within.cast("decimal(38,0)")
    return F.struct(operation.alias("operation"), row.alias("row"), within.alias("within"))


def _field(path: str) -> str:
    """The SQL of an event's field, wherever it is written."""
    outer, _, name = path.rpartition(".")
    flattened = [f"_dbz_meta.`__{path.replace('.', '_')}`"]
    if outer == "source" and name not in TIMES:
        flattened.append(f"_dbz_meta.`__{name}`")
    return f"if(_dbz_flat, coalesce({', '.join(flattened)}), _dbz_event.{path})"
