"""Taking a Debezium event out of its message: Kafka's and Kafka Connect's wrappers around it."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.changes.log_position import SOURCE, TIMES, TRANSACTION
from incremental_assets.typed_text import instant


def struct_type(fields: Mapping[str, str]) -> str:
    """The SQL type of a struct with these fields."""
    return "struct<" + ",".join(f"`{name}`:{kind}" for name, kind in fields.items()) + ">"


# All that is read, in one cast: what is not there, or of another type, is null.
_EVENT = struct_type(
    dict.fromkeys(("op", "__op", "__deleted", "status"), "string")
    | dict.fromkeys(("before", "after"), "variant")
    | dict.fromkeys(("key", "value", "payload"), "variant")
    | dict.fromkeys(("id", "ddl", "tableChanges"), "variant")
    | {"source": struct_type({"collection": "string", "snapshot": "string", **SOURCE, **TIMES})}
    | {"transaction": struct_type(TRANSACTION)}
    | TIMES
)
# Flattened, `source.lsn` is `__source_lsn` or `__lsn`, but a bare `__ts_ms` is the envelope's own.
_FLAT = struct_type(
    {f"__{name}": kind for name, kind in ({"snapshot": "string"} | SOURCE | TIMES).items()}
    | {f"__source_{n}": kind for n, kind in ({"snapshot": "string"} | SOURCE | TIMES).items()}
    | {f"__transaction_{name}": kind for name, kind in TRANSACTION.items()}
)
_WRAPPER = struct_type({"schema": "variant", "payload": "variant"})


def unwrapped_events(rows: DataFrame, time: str) -> DataFrame:
    """The event as a variant and by its fields, and the message's key."""
    value, event = F.col("_dbz_value"), F.col("_dbz_event")
    rows = rows.withColumn("_dbz_value", F.col("payload"))
    rows = rows.withColumn("_dbz_event", value.try_cast(_EVENT))
    if time:
        rows = rows.withColumn("_dbz_value", _with_envelope(time))
        rows = rows.withColumn("_dbz_event", value.try_cast(_EVENT))
    named = F.when(~_is_event(event), parse_variant(event["key"]))
    # Of a topic that was dumped as a table, the key is a column of its own.
    has_key = "_key" in rows.columns
    rows = rows.withColumn("_dbz_key", F.coalesce(F.col("_key"), named) if has_key else named)
    rows = rows.withColumn("_dbz_key", connect_payload(F.col("_dbz_key")))
    # Kafka's message around Connect's wrapper around the event: at most two to take off.
    for _ in range(2):
        inside = event["value"].isNotNull() & (
            event["key"].isNotNull() | ~F.is_variant_null(event["value"])
        )
        rows = rows.withColumn("_dbz_known", _is_event(event))
        rows = rows.withColumn(
            "_dbz_value",
            F.when(F.col("_dbz_known"), value)
            .when(inside, parse_variant(event["value"]))
            .when(event["payload"].isNotNull(), parse_variant(event["payload"]))
            .otherwise(value),
        )
        taken_off = F.when(F.col("_dbz_known"), event).otherwise(value.try_cast(_EVENT))
        rows = rows.withColumn("_dbz_event", taken_off)
    flat = event["__op"].isNotNull() | event["__deleted"].isNotNull()
    rows = rows.withColumns(
        {"_dbz_known": _is_event(event), "_dbz_flat": F.coalesce(flat, F.lit(False))}
    )
    rows = rows.withColumn("_dbz_meta", F.when(F.col("_dbz_flat"), value.try_cast(_FLAT)))
    return rows.withColumn("_dbz_meta", _with_times_of_row(time)) if time else rows


def connect_payload(value: Column) -> Column:
    """What Kafka Connect's wrapper holds; anything else as it is, also a row with such columns."""
    parts, fields = value.try_cast(_WRAPPER), value.try_cast("map<string,variant>")
    schema = parts["schema"]
    of_connect = F.is_variant_null(schema) | schema.try_cast("map<string,variant>").isNotNull()
    is_wrapper = (F.size(fields) == 2) & of_connect & parts["payload"].isNotNull()
    return F.when(is_wrapper, parts["payload"]).otherwise(value)


def _with_envelope(time: str) -> Column:
    """A row alone as an event of its own; anything else as it is.

    A row may have columns that are called like the parts of an event or of a message. It is a
    message if what it holds is an event, or if an object or null is next to a topic or an offset.
    """
    value, event = F.col("_dbz_value"), F.col("_dbz_event")
    at = _micros(value, time)
    row = F.struct(F.lit("c").alias("op"), value.alias("after"), at.alias("ts_us"))
    of_message = value.try_cast(struct_type(dict.fromkeys(("topic", "offset"), "variant")))
    has_place = F.coalesce(of_message["topic"], of_message["offset"]).isNotNull()
    is_message = F.lit(False)
    for name in ("value", "payload"):
        inside = connect_payload(parse_variant(event[name]))
        holds = F.is_variant_null(inside) | inside.try_cast("struct<a:variant>").isNotNull()
        is_message |= F.coalesce(holds & has_place, F.lit(False))
        is_message |= _is_event(inside.try_cast(_EVENT))
    alone = at.isNotNull() & ~_is_event(event) & ~is_message
    return F.when(alone, F.to_variant_object(row)).otherwise(value)


def _micros(row: Column, time: str) -> Column:
    """The instant in a field of a row, in microseconds; null where it is none."""
    fields = row.try_cast(struct_type({time.replace("`", "``"): "variant"}))
    return F.unix_micros(instant(fields[time].try_cast("string")))


def _with_times_of_row(time: str) -> Column:
    """What a flattened event states of itself; without any time, the row's own.

    A deleted row has the time of its last change, and its delete comes after that.
    """
    meta, event = F.col("_dbz_meta"), F.col("_dbz_event")
    at = _micros(F.col("_dbz_value"), time)
    deleted = (F.lower(event["__deleted"]) == "true") | (F.lower(event["__op"]) == "d")
    seen = at + F.when(deleted, 1).otherwise(0)
    timed = meta.withField("__source_ts_us", at).withField("__ts_us", seen)
    known = [meta[f"__{prefix}{name}"] for prefix in ("source_", "") for name in TIMES]
    return F.when(F.coalesce(*known).isNull(), timed).otherwise(meta)


def _is_event(event: Column) -> Column:
    """Whether the fields are those of an event, also a flattened one."""
    images = F.coalesce(event["before"], event["after"]).isNotNull() | event["source"].isNotNull()
    flattened = F.coalesce(event["__op"], event["__deleted"]).isNotNull()
    return F.coalesce((event["op"].isNotNull() & images) | flattened, F.lit(False))


def parse_variant(value: Column) -> Column:
    """The JSON that a text holds; anything else as it is."""
    is_object = value.try_cast("struct<a:variant>").isNotNull()
    return F.when(is_object, value).otherwise(
        F.coalesce(F.try_parse_json(value.try_cast("string")), value)
    )


def non_null(value: Column) -> Column:
    """The value; null where it is JSON null."""
    return F.when(~F.is_variant_null(value), value)
