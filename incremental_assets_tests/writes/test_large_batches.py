"""In a large batch, rows whose key occurs once are separated; nothing else differs."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from random import Random

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession

from incremental_assets.delta import lookup, merge
from incremental_assets.delta.merge import CONFLICT, rows_of_repeated_keys
from incremental_assets.frames import Frames
from incremental_assets.writes.destination import ChangeSet, Destination
from incremental_assets.writes.merge import LARGE_BATCH, latest_of_batch


def test_equal_keys_are_repeated_however_they_are_written(spark: SparkSession) -> None:
    values = [1.0, 0.0, -0.0, math.nan, -math.nan, None, None, 2.0]
    rows = spark.createDataFrame([(v, "k") for v in values], "number double, text string")

    apart = rows_of_repeated_keys(Frames.over(spark), rows, ["number", "text"])

    assert apart is not None
    alone, others = (Counter(str(row["number"]) for row in part.collect()) for part in apart)
    assert alone == {"1.0": 1, "2.0": 1}
    assert others == {"0.0": 1, "-0.0": 1, "nan": 2, "None": 2}


def test_of_many_repeated_keys_none_is_separated(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "MOST_REPEATED", 1)
    rows = spark.createDataFrame([(1,), (1,), (2,), (2,), (3,)], "id int")

    assert rows_of_repeated_keys(Frames.over(spark), rows, ["id"]) is None


def test_texts_that_a_collation_makes_equal_are_not_separated(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT * FROM VALUES ('a' COLLATE UTF8_LCASE), ('A' COLLATE UTF8_LCASE) t(id)"
    )

    assert rows_of_repeated_keys(Frames.over(spark), rows, ["id"]) is None


def test_the_latest_changes_and_the_conflicts_of_a_large_batch_are_those_of_a_small_one(
    spark: SparkSession,
) -> None:
    draw = Random(7)
    drawn = [
        (
            draw.choice([None, *range(12)]),
            draw.randrange(3),
            draw.choice("abc"),
            draw.random() < 0.3,
        )
        for _ in range(40)
    ]
    rows = spark.createDataFrame(drawn, "id int, _order int, _hash string, _deleted boolean")
    to = Destination("t", "nowhere", 1, ("id",), ("_order", "_hash"), truncates=True)

    def latest(count: int) -> list[tuple[object, ...]]:
        changes = ChangeSet(rows, {"id": rows.schema["id"].dataType}, deletes=True, count=count)
        found: DataFrame = latest_of_batch(Frames.over(spark), changes, to)
        names = ["id", "_order", "_hash", "_deleted", CONFLICT]
        return sorted(map(tuple, found.select(names).collect()), key=str)

    assert latest(LARGE_BATCH) == latest(0)
    assert len(latest(0)) > len({key for key, *_ in drawn})


@pytest.mark.parametrize(("large", "found"), [(0, {1: 5}), (2**20, {1: 5, 2: 3, 3: 9})])
def test_the_deletes_of_other_keys_are_left_out_of_a_large_side_table(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    large: int,
    found: dict[int, int],
) -> None:
    monkeypatch.setattr(lookup, "LARGE_BYTES", large)
    rows = [(1, 4, True), (1, 5, True), (2, 3, True), (3, 9, True), (4, 1, False)]
    schema = ["id", "_order", "_deleted"]
    pl.DataFrame(rows, schema=schema, orient="row").write_delta(tmp_path / "_beside")
    to = Destination("t", str(tmp_path), 1, ("id",), ("_order", "_hash"))
    batch = spark.createDataFrame([(1,), (1,), (4,), (None,)], "id long")

    deletes = to.last_deletes(Frames.over(spark), batch)

    assert deletes is not None
    assert {row["id"]: row["_marker"]["_order"] for row in deletes.collect()} == found
