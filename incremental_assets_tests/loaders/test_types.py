"""Which types a target gets, and what becomes of values of others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType
from pyspark.sql.types import StructField, TimeType

from incremental_assets.delta.delta_table import add_columns, ensure_table, field_of
from incremental_assets.errors import DefinitionError
from incremental_assets.loaders import LoadResult, TimestampBasedLoader
from incremental_assets.writes import OverwriteDays
from incremental_assets_tests.loaders.conftest import NOON, Place


def load(place: Place, **options: Any) -> LoadResult:
    return TimestampBasedLoader(place.spark, place.clock).load_incremental(
        **place.paths, timestamp_column="at", table_name="orders", **options
    )


def lines(*prices: float) -> Sequence[dict[str, Any]]:
    return [{"id": n, "price": p, "at": "2024-05-10T11:00:00Z"} for n, p in enumerate(prices)]


def test_an_empty_target_that_was_made_before_decides_types_and_partitions(place: Place) -> None:
    kinds = {"id": "long", "price": "double", "at": "timestamp"}
    fields = [Field(name, PrimitiveType(kind)) for name, kind in kinds.items()]
    DeltaTable.create(str(place.target), schema=Schema(fields))
    place.land_lines(lines(2, 3))
    with pytest.raises(DefinitionError, match=r"replaces partitions of id, .* by nothing: what it"):
        load(place, write=OverwriteDays("id"), partition_by="id")
    assert not (place.watermarks / "_delta_log").exists()

    load(place, partition_by="id")

    assert [str(price) for (price,) in place.rows("price")] == ["2.0", "3.0"]
    assert place.rows("at")[0][0].isoformat() == "2024-05-10T11:00:00+00:00"


def test_a_column_that_is_null_in_a_whole_file_keeps_the_type_that_it_has_elsewhere(
    place: Place,
) -> None:
    """As pandas and polars write it, such a column has no type."""
    place.source.mkdir()

    def extract(*rows: tuple[int, str | None], file: str = "a.parquet") -> LoadResult:
        at = [NOON - timedelta(hours=9 - id_) for id_, _ in rows]
        ids, notes = [id_ for id_, _ in rows], [note for _, note in rows]
        frame = pl.DataFrame({"id": ids, "note": notes, "at": at})
        frame.write_parquet(place.source / file)
        return load(place)

    assert extract().records_read == 0
    assert not place.target.exists()
    extract((1, None))
    assert "note" not in place.columns()
    extract((2, "x"), file="b.parquet")
    (place.source / "b.parquet").unlink()
    extract((3, None))

    assert place.rows("id", "note") == [(1, None), (2, "x"), (3, None)]


def test_a_type_that_a_table_cannot_have_is_named_and_nothing_is_made(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    columns = [("id", "long"), ("name", "string collate UTF8_LCASE")]
    message = r"column name is of the type string collate UTF8_LCASE, .*CAST\(… AS STRING\)"
    with pytest.raises(DefinitionError, match=message):
        ensure_table(path, "t", columns, ())
    assert not (tmp_path / "t").exists()

    ensure_table(path, "t", columns[:1], ())
    with pytest.raises(DefinitionError, match=r"column at is of the type time\(6\), which"):
        add_columns(path, [field_of(StructField("at", TimeType()))])


def test_nanoseconds_as_pandas_writes_them_are_cut_to_microseconds(place: Place) -> None:
    place.source.mkdir()
    at = pd.Series([pd.Timestamp("2024-05-10T11:00:00.123456789")])
    pd.DataFrame({"id": [1], "at": at}).to_parquet(place.source / "1.parquet")

    result = load(place)

    assert result.watermark_after == "2024-05-10T11:00:00.123456Z"
    assert place.rows("at") == [(datetime(2024, 5, 10, 11, 0, 0, 123456),)]
    assert load(place).records_read == 0
