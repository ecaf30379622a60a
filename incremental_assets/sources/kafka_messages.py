"""The messages of a topic as Spark reads them: ranges of offsets, of some days or of all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.decodable import decodable_stored
from incremental_assets.frames import Frames
from incremental_assets.sources.kafka_access import KafkaAccess
from incremental_assets.sources.kafka_days import MessagesByDay, Ranges
from incremental_assets.sources.payloads import LANDED
from incremental_assets.sources.unlogged import unlogged

_MESSAGE = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key:string,value:binary>>"
)
_FEW_RANGES = 20  # more are a frame that the messages are joined with
_ROWS_OF_A_TASK = 1_000_000


@dataclass(frozen=True, slots=True)
class TopicReading:
    """Which messages to read: ranges of a topic, with about so many `rows`."""

    access: KafkaAccess
    topic: str
    ranges: Ranges
    rows: int


def read_messages(frames: Frames, reading: TopicReading) -> DataFrame:
    """The committed messages in the ranges, as Spark's source has them.

    It fails where some of them are gone.
    """
    session = frames.session
    ranges = {p: ends for p, ends in reading.ranges.items() if ends[0] < ends[1]}
    if not ranges:
        return session.range(0).select(F.from_json(F.lit("{}"), _MESSAGE).alias("m")).select("m.*")
    topic, tasks = reading.topic, reading.rows // _ROWS_OF_A_TASK
    low, high = ({str(p): ends[at] for p, ends in ranges.items()} for at in (0, 1))
    options = {
        **reading.access.of_spark(),
        "assign": json.dumps({topic: sorted(ranges)}),
        "startingOffsets": json.dumps({topic: low}),
        "endingOffsets": json.dumps({topic: high}),
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        "kafka.isolation.level": "read_committed",
        "groupIdPrefix": "incremental_assets",
        **({"minPartitions": str(tasks)} if tasks > len(ranges) else {}),
    }
    with unlogged():  # the password
        return session.read.format("kafka").options(**options).load()


def of_days(messages: DataFrame, days: MessagesByDay) -> DataFrame:
    """The messages, with `_landed`, that lie in the ranges of their day."""
    ranges = [
        (day, partition, first, end)
        for day, some in days.items()
        for partition, (first, end) in some.ranges.items()
    ]
    if len(ranges) <= _FEW_RANGES:
        found = F.lit(False)
        for day, partition, first, end in ranges:
            found |= _inside(_is_of(day), partition, first, end)
        return messages.where(found)
    table = pa.table(
        {
            "_of_day": pa.array([day for day, _, _, _ in ranges], pa.date32()),
            "_of_partition": pa.array([partition for _, partition, _, _ in ranges], pa.int32()),
            "_first": pa.array([first for _, _, first, _ in ranges], pa.int64()),
            "_of_end": pa.array([end for _, _, _, end in ranges], pa.int64()),
        }
    )
    known = F.broadcast(messages.sparkSession.createDataFrame(table))
    same = F.col(LANDED).eqNullSafe(F.col("_of_day")) & (
        F.col("partition") == F.col("_of_partition")
    )
    inside = (F.col("offset") >= F.col("_first")) & (F.col("offset") < F.col("_of_end"))
    return messages.join(known, same & inside).drop(*table.column_names)


def landing_day() -> Column:
    """The UTC day of a message's timestamp; null without one, and beyond the year 9999."""
    at = F.col("timestamp")
    first, last = (F.lit(text).cast("timestamp_ltz") for text in _CALENDAR)
    return F.when(at.between(first, last), at.cast("date"))


_CALENDAR = "1970-01-01 00:00:00Z", "9999-12-31 23:59:59.999999Z"


def origin(key: Column) -> Column:
    """What a message has besides its value, as a `VARIANT` object; `key` is its key likewise."""
    header = F.transform(
        "headers",
        lambda one: F.struct(
            one["key"].alias("key"), decodable_stored(one["value"].cast("string")).alias("value")
        ),
    )
    kind = F.when(F.col("timestampType") == 0, "create").when(F.col("timestampType") == 1, "append")
    return F.to_variant_object(
        F.struct(
            "topic",
            "partition",
            "offset",
            "timestamp",
            kind.alias("timestamp_type"),
            key.alias("key"),
            header.alias("headers"),
        )
    )


def _is_of(day: date | None) -> Column:
    return F.col(LANDED).isNull() if day is None else F.col(LANDED) == F.lit(day)


def _inside(of_day: Column, partition: int, first: int, end: int) -> Column:
    at = F.col("offset")
    return of_day & (F.col("partition") == partition) & (at >= first) & (at < end)


def whole(low: Mapping[int, int], high: Mapping[int, int]) -> Ranges:
    """The ranges between two positions."""
    return {p: (low.get(p, 0), end) for p, end in high.items() if low.get(p, 0) < end}
