"""A lake over topics, and short words for messages and days of January 2017."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import polars as pl
from pyspark.sql import functions as F

from incremental_assets.changes import Offsets
from incremental_assets.changes.detector import Detector
from incremental_assets.delta.delta_table import version_of
from incremental_assets.delta.read import read_version
from incremental_assets.sources.kafka import Kafka
from incremental_assets.table import Table
from incremental_assets.writes import Append
from incremental_assets_tests.feeds.world import Lake
from incremental_assets_tests.kafka.broker import Broker, Header, Message

DAYS = "2017-01-05...2017-01-10"
BRONZE = "bronze/events"
# A lake over a topic, in a process of its own over the Spark of the tests: one that has a Spark
# takes no other. With further lines, to load it.
REMOTE = """
import sys
from datetime import date
from incremental_assets.settings import Settings
from incremental_assets.spark.session import start_session
from incremental_assets_tests.feeds.world import Lake
from incremental_assets_tests.kafka.world import *
remote, url, topic, lake, landing, cache = sys.argv[1:]
settings = Settings(
    lake=lake, landing=landing, cache=cache, start_date=date(2017, 1, 1), spark_remote=remote
)
class Brokers:
    pass
Brokers.url = url
shop = Lake(start_session(settings), settings, bronze(Brokers, topic))
"""


def ms(at: str) -> int:
    """`05 10:30` is that time of January 2017, in UTC."""
    moment = datetime(2017, 1, int(at[:2]), int(at[3:5] or 0), int(at[6:] or 0), tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def event(name: Any, at: str, partition: int = 0, key: Any = None) -> Message:
    """A message `{"name": …}` with a timestamp."""
    return Message(json.dumps({"name": name}), key, partition, ms(at))


def plain(value: Any, at: str, key: Any = None, headers: Sequence[Header] = ()) -> Message:
    """A message with its very bytes."""
    return Message(value, key, 0, ms(at), headers)


def bronze(broker: Broker, topic: str, changes: Detector | None = None, **options: Any) -> Table:
    return bronze_of(Kafka(broker.url, topic, **options), changes)


def bronze_of(source: Kafka, changes: Detector | None = None) -> Table:
    return Table(
        name=BRONZE,
        description="Events as they came.",
        reads=(source,),
        changes=changes or Offsets(),
        write=Append(),
    )


def landed(lake: Lake) -> list[tuple[str, str]]:
    """Landing day and name of the events, sorted."""
    return [(day[8:], name) for day, name in lake.bronze(BRONZE, "name")]


def kept(lake: Lake, *columns: str) -> list[tuple[Any, ...]]:
    """Columns of the bronze table as SQL, in the order of the offsets."""
    rows = read_version(lake.spark, lake.path(BRONZE), version_of(lake.path(BRONZE)))
    at = F.expr("try_variant_get(_message, '$.offset', 'long')")
    return [tuple(row) for row in rows.orderBy("_file", at).selectExpr(*columns).collect()]


def quarantined(lake: Lake, table: str) -> list[tuple[str, list[str]]]:
    """The quarantined rows of a table with their reasons."""
    path = f"{lake.settings.lake}/quarantine/{table.replace('/', '_')}"
    found = pl.read_delta(path).select("row", "reasons").rows()
    return sorted((row, list(reasons)) for row, reasons in found)
