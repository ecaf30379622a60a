"""What is done to frames: a value is found among few and among many, with the same rows."""

from __future__ import annotations

import io
import shutil
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.frames import FEW_VALUES, with_is_among
from incremental_assets.sources.delta_commits import delta_files_since
from incremental_assets.sources.stored_delta import delta_rows
from incremental_assets.spark import load_session
from incremental_assets.spark.load_session import SMALL_ROWS, batch_frames, size_of
from incremental_assets_tests.thorough import thorough


@pytest.mark.parametrize("few", [0, FEW_VALUES], ids=["many", "few"])
def test_a_value_is_found_among_few_and_among_many(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr("incremental_assets.frames.FEW_VALUES", few)
    rows = spark.createDataFrame([("a",), ("a",), ("it's",), ("c",), (None,)], "name string")

    found = with_is_among(rows, "there", F.col("name"), ["a", "it's", "z", "a"])

    assert found.columns == ["name", "there"]
    assert sorted((tuple(row) for row in found.collect()), key=lambda row: row[0] or "") == [
        (None, False),
        ("a", True),
        ("a", True),
        ("c", False),
        ("it's", True),
    ]
    assert [tuple(row) for row in with_is_among(rows, "x", F.col("name"), []).collect()] == [
        (row["name"], False) for row in rows.collect()
    ]


@pytest.mark.parametrize(
    "few",
    [
        pytest.param(0, id="many"),
        pytest.param(FEW_VALUES, id="few", marks=thorough("test_frames.py: among many")),
    ],
)
def test_files_of_a_source_are_chosen_among_many_by_deltas_own_reader(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr("incremental_assets.frames.FEW_VALUES", few)
    path = str(tmp_path / "a source")
    for name in "ab":
        rows = spark.createDataFrame([(f"{name}1",), (f"{name}2",)], "name string").coalesce(1)
        # With deletion vectors a file is not all that its rows are, so Delta reads it.
        vectors = ("delta.enableDeletionVectors", "true")
        rows.write.format("delta").option(*vectors).mode("append").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE name = 'b1'")
    files = delta_files_since(path, 0, 2).files

    found = delta_rows(spark, path, 2, files)

    assert [row["name"] for row in found.collect()] == ["b2"]


@pytest.mark.parametrize(("rows", "scans"), [(SMALL_ROWS, 0), (SMALL_ROWS + 1, 1)])
def test_in_a_small_batch_a_plan_ends_at_the_cache_and_its_source_is_read_once(
    spark: SparkSession, tmp_path: Path, rows: int, scans: int
) -> None:
    source = str(tmp_path / "source")
    spark.range(3).write.parquet(source)

    with batch_frames(lambda: spark, lambda: size_of(rows, []), path="") as frames:
        cached = frames.cache(frames.session.read.parquet(source).where("id > 0"))
        later = cached.selectExpr("id + 1 AS id")
        assert later.count() == 2
        shutil.rmtree(source)
        assert sorted(row["id"] for row in later.collect()) == [2, 3]
        assert plan_of(later).count(" parquet") == scans


def test_in_a_large_batch_a_plan_ends_where_it_is_cut(spark: SparkSession) -> None:
    with batch_frames(lambda: spark, lambda: size_of(SMALL_ROWS + 1, []), path="") as frames:
        assert "Range" not in plan_of(frames.cut(frames.session.range(3)))


def test_on_a_cluster_rows_of_an_executor_that_is_lost_can_be_computed_again(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = type(spark.conf).get
    monkeypatch.setattr(
        type(spark.conf),
        "get",
        lambda conf, name, *default: (
            "spark://head:7077" if name == "spark.master" else read(conf, name, *default)
        ),
    )

    with batch_frames(lambda: spark, lambda: size_of(1, []), path="") as frames:
        assert "Range" in plan_of(frames.cache(frames.session.range(3)))


def test_on_a_cluster_a_plan_is_cut_by_files_that_are_gone_with_the_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_session, "_can_checkpoint", lambda spark: False)
    folder = tmp_path / "a table {x} 100%?"
    odd = (
        "1 AS `a.b`",
        "NULL AS nothing",
        "parse_json('{\"n\": 1}') AS v",
        "DATE'2024-05-01' AS dt",
    )

    with batch_frames(lambda: spark, lambda: size_of(1, []), path=str(folder)) as frames:
        cut = frames.cut(frames.session.range(2).selectExpr(*odd, "id"))
        assert [p.name[:-8] for p in folder.iterdir()] == [load_session.INTERMEDIATE]
        assert cut.columns == ["a.b", "nothing", "v", "dt", "id"]
        assert "Range" not in plan_of(cut)
        rows = cut.selectExpr("`a.b`", "nothing", "to_json(v)", "string(dt)", "id").collect()
        assert sorted(map(tuple, rows)) == [(1, None, '{"n":1}', "2024-05-01", n) for n in (0, 1)]

    assert list(folder.iterdir()) == []


def plan_of(rows: DataFrame) -> str:
    """The analyzed plan, as `explain` prints it."""
    with redirect_stdout(io.StringIO()) as printed:
        rows.explain(extended=True)
    return printed.getvalue().partition("== Optimized")[0].partition("== Analyzed")[2]


def test_a_query_does_not_grow_with_the_values(spark: SparkSession) -> None:
    rows = spark.range(3).selectExpr("cast(id AS string) AS name")

    plan = io.StringIO()
    with redirect_stdout(plan):
        with_is_among(rows, "there", F.col("name"), [f"file {n}" for n in range(3_000)]).explain()

    assert len(plan.getvalue()) < 3_000
