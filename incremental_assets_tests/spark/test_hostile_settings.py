"""What somebody set for the whole cluster does not change what a load does."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

from incremental_assets.errors import SourceError
from incremental_assets.loaders import TimestampBasedLoader
from incremental_assets.settings import Settings
from incremental_assets.spark.load_session import PINNED, own_session
from incremental_assets_tests.loaders.conftest import Place
from incremental_assets_tests.scenarios.world import World, sale, sales

# Each turns a fault into silence, or the same data into other values.
HOSTILE = {
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.files.ignoreInvalidPartitionPaths": "true",
    "spark.sql.jsonGenerator.ignoreNullFields": "false",
    "spark.sql.variant.allowDuplicateKeys": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.storeAssignmentPolicy": "LEGACY",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.legacy.charVarcharAsString": "true",
    "spark.sql.legacy.useLegacyXMLParser": "true",
    "spark.sql.xml.variant.respectInferSchema": "false",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.parquet.binaryAsString": "true",
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.writeLegacyFormat": "true",
    "spark.sql.parquet.outputTimestampType": "INT96",
    "spark.sql.sources.partitionOverwriteMode": "DYNAMIC",
    "mapreduce.input.linerecordreader.line.maxlength": "200",
    "orc.force.positional.evolution": "true",
    "spark.sql.retainGroupColumns": "false",
    "spark.sql.variant.validateUnicodeInJsonParsing": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInRead": "LEGACY",
    "spark.sql.avro.datetimeRebaseModeInRead": "LEGACY",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
    "spark.sql.chunkBase64String.enabled": "false",
}
# Whatever names no file system lies somewhere else.
ELSEWHERE = {
    "fs.defaultFS": "viewfs://cluster",
    "fs.viewfs.mounttable.cluster.link./tmp": "file:///var/tmp/incremental-assets-elsewhere",
    "fs.viewfs.impl.disable.cache": "true",
}
DAY = "2017-01-02"


class Cluster:
    """Stands for a Spark whose administrator set all of this: each session begins with it."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def newSession(self) -> SparkSession:  # noqa: N802 - PySpark's name
        session = self._spark.newSession()
        for name, value in (HOSTILE | ELSEWHERE).items():
            session.conf.set(name, value)
        return session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)


@pytest.fixture
def cluster(spark: SparkSession) -> SparkSession:
    return Cluster(spark)  # type: ignore[return-value]


def test_a_load_takes_none_of_the_settings_that_hide_faults(cluster: SparkSession) -> None:
    with own_session(cluster, "any") as session:
        left = {n: v for n, v in HOSTILE.items() if session.conf.get(n).lower() == v.lower()}

    assert left == {}


def test_spark_knows_each_of_its_settings_that_a_load_pins(spark: SparkSession) -> None:
    own = [name for name in PINNED if name.startswith("spark.")]

    assert [name for name in own if not spark.conf.isModifiable(name)] == []


def test_a_long_line_and_what_is_merged_are_there_wherever_a_cluster_has_its_files(
    cluster: SparkSession, settings: Settings
) -> None:
    world = World(cluster, settings)
    rows = [sale("a", DAY), sale("b", DAY, note="x" * 300), sale("c", DAY)]
    world.land("events", DAY, "1.jsonl", rows)
    world.load(DAY, "bronze/events", "silver/sales")
    world.land("events", DAY, "2.jsonl", [sale("a", DAY, qty=9, arrival_ts=f"{DAY}T23:59:59Z")])
    world.load(DAY, "bronze/events", "silver/sales")

    assert world.orders() == {"a", "b", "c"}
    assert world.rows("silver/sales").filter(order_id="a")["qty"].to_list() == [9]


def test_a_corrupt_file_fails_the_load_whatever_the_cluster_ignores(
    cluster: SparkSession, settings: Settings
) -> None:
    world = World(cluster, settings)
    world.land("events", DAY, "good.jsonl", sales("good", DAY, 3))
    whole = gzip.compress("\n".join(f'{{"order_id": "{n}"}}' for n in range(999)).encode())
    file = world.land("events", DAY, "cut.jsonl.gz", [])
    file.write_bytes(whole[: len(whole) // 2])

    with pytest.raises(SourceError, match="cannot be read"):
        world.load(DAY, "bronze/events")

    file.unlink()
    (loaded,) = world.load(DAY, "bronze/events").values()
    assert sum(e.rows_read for r in loaded.days.values() for e in r.entries) == 3


def test_a_row_that_is_delivered_again_is_the_same_row_under_other_settings(
    spark: SparkSession, cluster: SparkSession, place: Place
) -> None:
    schema = {"id": pl.Int64, "note": pl.String, "At": pl.Datetime("us", "UTC")}
    place.land([{"id": 1, "note": None, "At": datetime(2024, 5, 10, 11, tzinfo=UTC)}], schema)

    def load(session: SparkSession) -> int:
        loader = TimestampBasedLoader(session, place.clock)
        result = loader.load_incremental(**place.paths, timestamp_column="At", table_name="orders")
        return result.records_loaded

    assert [load(spark), load(cluster)] == [1, 0]
    assert place.rows("id", "At") == [(1, datetime(2024, 5, 10, 11, tzinfo=UTC))]
