"""Bytes in the rows of typed envelopes, as JSON has them: each of them is a version of its own."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest
from pyspark.sql import Row, SparkSession

from incremental_assets.changes import ChangeLog
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import Integer
from incremental_assets.sources.base64_values import in_base64
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import SCD2, Append, Merge
from incremental_assets_tests.feeds.conftest import Lakes

_ROW: Any = Row
BRONZE = Table(
    name="bronze/pictures",
    description="Events of a table's log.",
    reads=(LandedFiles("pictures", format="parquet"),),
    changes=ChangeLog.debezium(),
    write=Append(),
)
WRITES: Mapping[str, Merge | SCD2] = {"pictures": Merge(), "versions": SCD2()}
SILVER = tuple(
    Table(
        name=f"silver/{name}",
        description="The pictures.",
        reads=(SameDay(BRONZE),),
        key=("id",),
        schema=Contract(id=Integer(required=True)),
        write=write,
    )
    for name, write in WRITES.items()
)


def envelopes(*events: tuple[int, bytes]) -> pl.DataFrame:
    """Updates of one row: the position of each in the log, and its bytes."""
    return pl.DataFrame(
        {
            "op": ["u"] * len(events),
            "before": [None] * len(events),
            "after": [{"id": 1, "raw": raw} for _, raw in events],
            "source": [{"lsn": lsn} for lsn, _ in events],
        },
        schema_overrides={
            "before": pl.Struct({"id": pl.Int64, "raw": pl.Binary}),
            "after": pl.Struct({"id": pl.Int64, "raw": pl.Binary}),
        },
    )


def test_bytes_that_are_no_text_are_versions_that_every_reader_reads(lake: Lakes) -> None:
    pictures = lake(BRONZE, *SILVER)
    first = envelopes((1, b"\xff\x00"), (2, b"\xfe\x00"))
    pictures.put_parquet("pictures/2017-01-05", "1.parquet", first)
    pictures.load("2017-01-05")
    pictures.put_parquet("pictures/2017-01-06", "1.parquet", envelopes((4, b"\xfd\x00" * 60)))
    pictures.load("2017-01-06")

    long = b64encode(b"\xfd\x00" * 60).decode()  # in one line, of more than 76 characters
    assert pictures.rows("silver/pictures", "id", "raw") == [(1, long)]
    assert pictures.rows("silver/versions", "raw", "valid_from", "valid_to") == sorted(
        [("/wA=", 1, 2), ("/gA=", 2, 4), (long, 4, None)], key=repr
    )


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("binary", b"\x00\xff", "AP8="),
        ("array<binary>", [b"\x00", None], ["AA==", None]),
        ("map<string,binary>", {"k": b"\x00"}, {"k": "AA=="}),
        ("map<binary,array<binary>>", {b"\x00": [b""]}, {"AA==": [""]}),
        ("struct<a:struct<`b.c`:binary,d:int>>", _ROW(a=_ROW(b"\xff", 1)), _ROW(a=_ROW("/w==", 1))),
        ("struct<a:binary>", None, None),
        ("struct<a:string>", _ROW(a="\u00ff"), _ROW(a="\u00ff")),
    ],
)
def test_bytes_wherever_they_are_become_base64(
    spark: SparkSession, kind: str, value: object, text: object
) -> None:
    rows = spark.createDataFrame([(value,)], f"value {kind}")

    (found,) = rows.select(in_base64(rows["value"], rows.schema["value"].dataType)).collect()

    assert found[0] == text
