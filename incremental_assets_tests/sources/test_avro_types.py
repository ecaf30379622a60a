"""Avro's types that Spark cannot hold, in schemas and in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from incremental_assets.sources.avro_types import as_spark_reads
from incremental_assets_tests.kafka.registry import avro, varint
from incremental_assets_tests.sources.reading import payloads, put

TIME = {"type": "long", "logicalType": "time-micros"}
LONG = {"type": "long"}


def digits(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def record(*kinds: Any) -> dict[str, Any]:
    fields = [{"name": f"f{at}", "type": kind} for at, kind in enumerate(kinds)]
    return {"type": "record", "name": "Row", "fields": fields}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("long", "long"),
        (TIME, LONG),
        (record(TIME, "shop.Other"), record(LONG, "shop.Other")),
        (record(["null", TIME]), record(["null", LONG])),
        (record({"type": "array", "items": TIME}), record({"type": "array", "items": LONG})),
        (record({"type": "map", "values": record(TIME)}), record({"type": "map", "values": record(LONG)})),
        (TIME | {"logicalType": "timestamp-micros"}, TIME | {"logicalType": "timestamp-micros"}),
        (digits(38, 2), digits(38, 2)),
        (digits(64, 2), digits(38, 2)),
        (digits(64, 39), {"type": "bytes", "precision": 64, "scale": 39}),
    ],
)  # fmt: skip
def test_types_that_spark_cannot_hold_are_replaced_wherever_they_are(
    schema: Any, expected: Any
) -> None:
    before = json.dumps(schema)

    assert as_spark_reads(schema) == expected
    assert json.dumps(schema) == before


def test_files_of_such_types_are_read(spark: SparkSession, tmp_path: Path) -> None:
    schema, sync = json.dumps(record(TIME, ["null", digits(64, 2)])), bytes(range(16))
    body = avro(30_600_000_000, (1, b"\x01\x00"))
    header = b"Obj\x01" + varint(1) + avro("avro.schema", schema) + varint(0) + sync
    put(tmp_path / "a.avro", header + varint(1) + avro(body) + sync)

    ((row, _, raw),) = payloads(spark, tmp_path)

    assert (row, raw) == ('{"f0":30600000000,"f1":2.56}', None)
